"""The bytes of a response, taken from the connection in large pieces.

httpx reads 64 KiB at a time and copies each of them several times on their way through h11, which costs as much as all
the rest of a download. A body of a known length needs nobody who looks for its end, so it is read from httpcore's
stream, which is that of the proxy or of TLS where there is one. The connection cannot be used again afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpcore
import httpx

READ = 256 << 10  # bytes; small enough to stay in the processor's cache until they are written


def pieces(response: httpx.Response, length: int | None) -> Iterator[bytes]:
    """The body as it comes, nothing decoded; `length` is its Content-Length. Raises httpx.TransportError."""
    coming = response.iter_raw()
    if length is None or "transfer-encoding" in response.headers:
        yield from coming
        return
    first = next(coming, b"")  # all that came together with the headers
    yield first
    stream = response.extensions["network_stream"]
    timeout = response.request.extensions["timeout"]["read"]
    missing = length - len(first)
    while missing > 0:
        piece = _read(stream, min(missing, READ), timeout)
        if not piece:
            raise httpx.RemoteProtocolError(f"it ended {missing:,} bytes too early")
        missing -= len(piece)
        yield piece


def _read(stream: httpcore.NetworkStream, most: int, timeout: float | None) -> bytes:
    try:
        return stream.read(most, timeout=timeout)
    except httpcore.TimeoutException as error:
        raise httpx.ReadTimeout(str(error)) from error
    except httpcore.NetworkError as error:
        raise httpx.ReadError(str(error)) from error
