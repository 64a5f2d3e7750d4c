"""One value for every setting, and where it came from.

Flag > chat > QCHAT_* environment > config.toml > config/defaults.toml.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from app.settings.paths import paths, shipped_config_dir
from app.settings.rule import Value
from app.settings.servers import LOCAL, ServerTable
from app.settings.settings import FREE_TABLES, RULES, SamplingSettings, Settings
from app.settings.sources import ConfigFile, checked, read_config, read_environment, variable


def load_settings(*layers: Mapping[str, Any] | None) -> Settings:
    """Resolve every setting. `layers` come over the environment, the last first: a chat's own settings, then what the
    command line gave, each by dotted key; None means not given.

    A model written NAME/MODEL, where NAME is a server or "local", names the backend too (`name_backend`). A backend
    that is named without a model answers with its own: the `model` of the server's table, or "" for its choice.
    """
    defaults = read_config(shipped_config_dir() / "defaults.toml")
    values: dict[str, Value] = dict(defaults.values)
    sources = dict.fromkeys(RULES, "default")
    config_file, config = paths().config_file, ConfigFile({}, {})
    if config_file.exists() or os.environ.get("QCHAT_CONFIG"):
        config = read_config(config_file)

    def put(layer: Mapping[str, Value], source: Mapping[str, str]) -> None:
        given = name_backend(layer, config.servers)
        backend = given.get("backend", values["backend"])
        if given.get("model") == "" or (backend != values["backend"] and "model" not in given):
            table = config.servers.get(str(backend))
            own = table.model if table else ""
            given["model"] = defaults.values["model"] if backend == LOCAL else own
        where = source.get("model") or source.get("backend") or ""
        sources.update({key: source.get(key, where) for key in given})
        values.update(given)

    put(config.values, dict.fromkeys(config.values, str(config_file)))
    environment = read_environment()
    put(environment, {key: variable(key) for key in environment})
    for layer in layers:
        given = {key: flag for key, flag in (layer or {}).items() if flag is not None}
        put(
            {key: checked(key, flag, "the command line") for key, flag in given.items()},
            dict.fromkeys(given, "command line"),
        )
    sampling: dict[str, Any] = {k.removeprefix("sampling."): v for k, v in values.items() if k.startswith("sampling.")}
    keys, folders = ({k.removeprefix(t): str(v) for k, v in values.items() if k.startswith(t)} for t in FREE_TABLES)
    top: dict[str, Any] = {k: v for k, v in values.items() if "." not in k}
    top["thinking"] = None if top["thinking"] is None else top["thinking"] == "on"
    return Settings(
        **top,
        sampling=SamplingSettings(**sampling),
        servers=MappingProxyType(dict(config.servers)),
        keys=MappingProxyType(keys),
        folders=MappingProxyType(folders),
        sources=MappingProxyType(sources),
    )


def name_backend(layer: Mapping[str, Any], servers: Mapping[str, ServerTable]) -> dict[str, Any]:
    """`layer` with a model written NAME/MODEL taken apart, where NAME is a server or "local".

    A backend that the layer itself names stands, so that `--backend work -m openai/gpt-oss-20b` asks the server work
    for that model, whatever else is called openai. NAME/ alone leaves the model to the server.
    """
    name, slash, model = str(layer.get("model") or "").partition("/")
    if not slash or (name != LOCAL and name not in servers) or layer.get("backend", name) != name:
        return dict(layer)
    return {**layer, "backend": name, "model": model}
