"""Read the bodies of requests, within limits of bytes, time and memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from edgedec.server.http.settings import ServerSettings
from edgedec.server.wire.errors import ApiError

_SMALL_BYTES = 64 << 10
_LARGE_AT_ONCE = 4
"""Longer bodies that may be in memory together: read as JSON they take many times their size."""


class _TooLong(Exception):  # noqa: N818 - it becomes an ApiError
    """The body has more bytes than are read."""


class BodyReader:
    """Reads bodies of JSON."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """Inside, the body of a request is in memory, and few others.

        Raises ApiError for one that is no JSON, too long or too slow.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ApiError(415, "the body must be JSON, with content-type application/json")
        held = _Held(self._large)
        try:
            yield await self._read(request, held)
        finally:
            held.release()

    async def _read(self, request: Request, held: _Held) -> bytes:
        most, longest = self._settings.body_bytes, self._settings.read_s
        try:
            async with asyncio.timeout(longest):
                return await _bounded(request, most, held)
        except _TooLong:
            raise ApiError(413, f"the body is longer than {most} bytes") from None
        except TimeoutError:
            raise ApiError(408, f"the body did not arrive within {longest:g} s") from None
        except ClientDisconnect:
            raise ApiError(400, "the body ended early") from None


class _Held:
    """A place among the large bodies, once it was taken."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places, self._taken = places, False

    async def take(self) -> None:
        if not self._taken:
            await self._places.acquire()
            self._taken = True

    def release(self) -> None:
        if self._taken:
            self._places.release()
            self._taken = False


async def _bounded(request: Request, most: int, held: _Held) -> bytes:
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated[:20]) > most:
        raise _TooLong
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise _TooLong
        if len(body) > _SMALL_BYTES:
            await held.take()
    return bytes(body)
