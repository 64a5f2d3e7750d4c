"""The exceptions that reach a person: what happened, what to do about it, and the exit code.

Every error that qchat raises on purpose is a `QChatError`. The command line prints `message` and, on a second line,
`hint`; the app shows the same two lines in a dialog. Anything else that escapes is a bug and keeps its traceback.
"""

from __future__ import annotations


class QChatError(Exception):
    """An error with a sentence for a person, an optional next step and an exit code."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(QChatError):
    """The request itself is wrong: an unknown option, a value out of range, an empty prompt."""

    exit_code = 2


class SettingsError(UsageError):
    """A setting in the environment or a config file has a bad name or value."""


class ModelFileError(QChatError):
    """A model file is damaged, incomplete or of a kind that qchat cannot run."""


class UnsupportedModelError(ModelFileError):
    """The file may be fine, but its architecture, quantisation or tokenizer is not one that qchat runs."""


class CudaUnavailableError(QChatError):
    """This machine cannot run the CUDA engine; the message says what it lacks and how to get it."""


class DeviceMemoryError(QChatError):
    """The GPU has too little free memory."""


class ModelNotFoundError(QChatError):
    """No model of that name or path is on this disk."""


class DownloadError(QChatError):
    """A model could not be fetched: it was refused, is not what it should be, or cannot be kept."""


class NetworkError(DownloadError):
    """The server of a model could not be reached, or went away."""

    exit_code = 3


class DownloadTimeoutError(DownloadError):
    """The server of a model said nothing for too long."""

    exit_code = 4


class BackendError(QChatError):
    """A backend could not be reached or failed."""

    exit_code = 3


class BackendTimeoutError(BackendError):
    """A backend did not answer in time."""

    exit_code = 4


class KeyringError(QChatError):
    """The keyring of the system cannot be used."""


class StoreError(QChatError):
    """The file of the chats cannot be read or written."""


class SessionNotFoundError(QChatError):
    """No chat has that id or title."""


class TemplateError(QChatError):
    """A chat template is missing, cannot be parsed, or refused the conversation."""

    def __init__(self, message: str, hint: str | None = None, line: int | None = None) -> None:
        super().__init__(message, hint)
        self.line = line


class ContextOverflowError(QChatError):
    """The prompt does not fit the context window, and nothing that may be dropped is left."""

    def __init__(
        self,
        needed: int | None,
        available: int | None,
        hint: str = "shorten the message, or raise --ctx if the model allows it",
    ) -> None:
        """Tokens; None is not known, as from a server that gives no numbers."""
        if needed is not None and available is not None:
            message = f"the prompt needs {needed:,} tokens and the context holds {available:,}"
        else:
            holds = "" if available is None else f" of {available:,} tokens"
            message = f"the prompt does not fit the context{holds}"
        super().__init__(message, hint)
        self.needed = needed
        self.available = available


def printable(text: str, limit: int = 80) -> str:
    """`text` safe for a terminal and a log line: control, bidi and unassigned marks escaped, cut to `limit` characters.

    Anything that a file or a server supplied passes through here before it becomes part of a message.
    """
    shown = text[: limit + 1]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def nearest(name: str, known: list[str]) -> str | None:
    """The one of `known` that `name` was probably meant to be."""
    import difflib  # noqa: PLC0415 - for an error only

    near = difflib.get_close_matches(name, known, n=1)
    return near[0] if near else None
