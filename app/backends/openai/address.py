"""Where the protocol begins at a server's address."""

from __future__ import annotations

import re
from dataclasses import replace

from app.backends.remote.url import ServerUrl, parse_url

DEFAULT_URL = "https://api.openai.com/v1"  # of the backend "openai" where no server has that name
_ENDPOINT = re.compile(r"/(?:chat/completions|completions|models)$")


def protocol_url(text: str) -> ServerUrl:
    """The address to which "/chat/completions" is added. A bare host gets /v1; a path that is given is kept, without an
    endpoint that somebody copied with it. Raises SettingsError for what is no address.
    """
    url = parse_url(text)
    path = _ENDPOINT.sub("", url.path)
    return replace(url, path=path or "/v1")
