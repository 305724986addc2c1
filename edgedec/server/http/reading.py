"""Read the body of a request, within limits of bytes and time."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.requests import ClientDisconnect, Request

from edgedec.server.http.settings import ServerSettings
from edgedec.server.wire.errors import ApiError

_DRAIN_S = 2.0
"""Time in which the rest of a body that is too long is read and dropped, so that the answer arrives."""


class _TooLong(Exception):  # noqa: N818 - it becomes an ApiError
    """The body has more bytes than are read."""


async def read_json(request: Request, settings: ServerSettings) -> bytes:
    """Return the body. Raises ApiError for one that is no JSON, too long or too slow."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, "the body must be JSON, with content-type application/json")
    try:
        async with asyncio.timeout(settings.read_s):
            return await _bounded(request, settings.body_bytes)
    except _TooLong:
        await _drain(request, settings.body_bytes)
        raise ApiError(413, f"the body is longer than {settings.body_bytes} bytes") from None
    except TimeoutError:
        raise ApiError(408, f"the body did not arrive within {settings.read_s:g} s") from None
    except ClientDisconnect:
        raise ApiError(400, "the body ended early") from None


async def _bounded(request: Request, most: int) -> bytes:
    stated = request.headers.get("content-length", "")
    body = bytearray()
    if stated.isdecimal() and int(stated[:20]) > most:
        raise _TooLong
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise _TooLong
    return bytes(body)


async def _drain(request: Request, most: int) -> None:
    with suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(_DRAIN_S):
            while most > 0:
                message = await request.receive()
                most -= len(message.get("body", b""))
                if not message.get("more_body"):
                    return
