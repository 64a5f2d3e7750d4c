"""Lines out of a stream of bytes that was cut anywhere, with a limit to what one line may hold."""

from __future__ import annotations

import re

from app.errors import BackendError

MOST_BYTES = 8 << 20  # of one line; the arguments of a tool call can hold a file
_BOM = b"\xef\xbb\xbf"
_END = re.compile(rb"\r\n|\n|\r")


class LineSplitter:
    """Ends are LF, CRLF and CR alone; a byte order mark in front is dropped. Bytes that are no UTF-8 become U+FFFD."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._open: list[bytes] = []  # of a line without its end
        self._open_bytes = 0
        self._after_cr = False  # an LF that comes next belongs to it
        self._at_start = True

    def push(self, data: bytes) -> list[str]:
        """The lines that `data` ends, without their ends. Raises BackendError for one that is too long."""
        if not data:
            return []
        if self._at_start:
            data = b"".join([*self._open, data])
            self._open, self._open_bytes = [], 0
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._hold(data)
                return []
            data = data.removeprefix(_BOM)
            self._at_start = False
        if self._after_cr:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        lines = []
        start = 0
        for end in _END.finditer(data):
            self._hold(data[start : end.start()])
            lines.append(self._line())
            start = end.end()
        self._after_cr = data.endswith(b"\r")
        self._hold(data[start:])
        return lines

    def rest(self) -> str:
        """What came after the last end of a line."""
        return self._line()

    def _hold(self, data: bytes) -> None:
        self._open_bytes += len(data)
        if self._open_bytes > self._most:
            raise BackendError(f"the server sent a line of more than {self._most >> 20} MB")
        self._open.append(data)

    def _line(self) -> str:
        line = b"".join(self._open).decode("utf-8", "replace")
        self._open, self._open_bytes = [], 0
        return line
