"""Connections that bear slow, silent and talkative clients: uvicorn's, with deadlines and bounds.

The server calls ``sweep`` about once a second. It closes a connection whose headers do not arrive in time,
and one whose client does not read: bytes that wait for it count from when they last were none.
"""

from __future__ import annotations

import importlib.util
import time
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from edgedec.server.http.settings import HEADER_BYTES
from edgedec.server.wire.errors import ApiError

if TYPE_CHECKING:
    import asyncio

    from edgedec.server.http.settings import ServerSettings

_PIPELINED = 8
"""Requests that a client may send ahead of their answers."""
_FAULTY = ApiError(400, "this is no HTTP request")
_CROWDED = ApiError(503, "the server has too many connections", code="too_many_connections")
_LONG = ApiError(431, f"the headers are longer than {HEADER_BYTES} bytes")
_WORDS = {400: "Bad Request", 431: "Request Header Fields Too Large", 503: "Service Unavailable"}


def connection_class(settings: ServerSettings) -> type[asyncio.Protocol]:
    """Return the class of connections: over httptools where it is installed, else over h11."""
    base: Any
    if _has_httptools():
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as base  # noqa: N813
    else:
        from uvicorn.protocols.http.h11_impl import H11Protocol as base  # noqa: N813

    class Connection(base):  # type: ignore[misc]
        """A connection with deadlines and bounds."""

        def connection_made(self, transport: asyncio.Transport) -> None:
            self.waits = Waits(settings)
            super().connection_made(transport)
            if len(self.connections) > settings.connections:
                self.refuse(_CROWDED)

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            if self.transport.is_closing():
                return
            super().data_received(data)
            if not self.between or self.cycle is not before:
                self.waits.begun()
            elif self.waits.header(len(data)) > HEADER_BYTES and not self.transport.is_closing():
                self.refuse(_LONG) if self.cycle is None else self.transport.close()
            if len(getattr(self, "pipeline", ())) > _PIPELINED:
                self.transport.abort()

        @property
        def between(self) -> bool:
            """Whether no request is being answered."""
            return self.cycle is None or self.cycle.response_complete

        def sweep(self) -> None:
            """Close the connection where its client is too slow."""
            if self.waits.stalled(self.transport.get_write_buffer_size()):
                self.transport.abort()
            elif self.between and self.waits.late():
                self.transport.close()

        def send_400_response(self, msg: str) -> None:
            self.refuse(_FAULTY)

        def refuse(self, error: ApiError) -> None:
            """Answer with an error outside of any request, and close."""
            body = to_json(error.as_json())
            head = (
                f"HTTP/1.1 {error.status} {_WORDS[error.status]}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
            self.transport.close()

    return Connection


def _has_httptools() -> bool:
    return importlib.util.find_spec("httptools") is not None


class Waits:
    """Since when a connection waits for its client."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._header_since: float | None = time.monotonic()
        self._header_bytes = 0
        self._unread_since: float | None = None

    def begun(self) -> None:
        """Note that a request has begun: its headers are complete."""
        self._header_since, self._header_bytes = None, 0

    def header(self, nbytes: int) -> int:
        """Note bytes of headers; return how many there are."""
        if self._header_since is None:
            self._header_since = time.monotonic()
        self._header_bytes += nbytes
        return self._header_bytes

    def late(self) -> bool:
        """Whether headers have been awaited for too long."""
        since = self._header_since
        return since is not None and time.monotonic() - since > self._settings.header_s

    def stalled(self, unread: int) -> bool:
        """Whether bytes have waited for the client for too long; ``unread`` of them wait now."""
        if not unread:
            self._unread_since = None
            return False
        self._unread_since = self._unread_since or time.monotonic()
        return time.monotonic() - self._unread_since > self._settings.stall_s
