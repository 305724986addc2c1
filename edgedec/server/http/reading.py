"""Read the bodies of requests, within limits of bytes, time and memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from edgedec.server.http.settings import ServerSettings
from edgedec.server.wire.errors import ApiError

_SMALL_BYTES = 64 << 10
_LARGE_AT_ONCE = 4
"""Longer bodies that may be in memory together: read as JSON they take many times their size."""


class BodyReader:
    """Reads bodies of JSON."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)

    @asynccontextmanager
    async def body(self, request: Request, *, any_type: bool = False) -> AsyncIterator[bytes]:
        """Inside, the body of a request is in memory, and few others.

        Raises ApiError for one that is no JSON, too long or too slow. With ``any_type`` no header need say
        that it is JSON, as none of ``curl -d`` does.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not any_type:
            raise ApiError(415, "the body must be JSON, with content-type application/json")
        async with AsyncExitStack() as held:
            yield await self._read(request, held)

    async def _read(self, request: Request, held: AsyncExitStack) -> bytes:
        longest = self._settings.read_s
        try:
            async with asyncio.timeout(longest):
                return await self._bounded(request, held)
        except TimeoutError:
            raise ApiError(408, f"the body did not arrive within {longest:g} s") from None
        except ClientDisconnect:
            raise ApiError(400, "the body ended early") from None

    async def _bounded(self, request: Request, held: AsyncExitStack) -> bytes:
        """Return a body; a long one takes its place among those until ``held`` is left."""
        most, stated = self._settings.body_bytes, request.headers.get("content-length", "")
        too_long = ApiError(413, f"the body is longer than {most} bytes")
        if stated.isdecimal() and int(stated[:20]) > most:
            raise too_long
        body, large = bytearray(), False
        async for part in request.stream():
            body += part
            if len(body) > most:
                raise too_long
            if len(body) > _SMALL_BYTES and not large:
                await held.enter_async_context(self._large)
                large = True
        return bytes(body)
