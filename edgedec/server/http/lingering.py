"""The body of a request that is answered before it was read.

A connection that is closed while bytes are on their way to it is reset, and the client may lose the answer.
So the rest is read and dropped, within bounds of time, after the answer was sent.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Send

_LINGER_S = 10.0
"""Longest time for the rest of a body."""
_IDLE_S = 2.0
"""Longest wait for more of it."""
_TOO_SLOW = 408


class Incoming:
    """The body of a request as ``receive`` hands it over; notes whether it is over."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._over = False

    async def receive(self) -> Message:
        """Return the next part of the body, or that the client is gone."""
        message = await self._receive()
        self._over = self._over or message["type"] != "http.request" or not message.get("more_body")
        return message

    async def answer(self, message: Message, send: Send) -> None:
        """Send a part of the answer; the end of it waits for the end of the body.

        A client that was too slow for the body is waited for no longer.
        """
        self._over = self._over or message.get("status") == _TOO_SLOW
        last = message["type"] == "http.response.body" and not message.get("more_body")
        if last and not self._over:
            await send({**message, "more_body": True})
            await self._drop()
            message = {"type": "http.response.body", "body": b""}
        await send(message)

    async def _drop(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while not self._over:
                    async with asyncio.timeout(_IDLE_S):
                        await self.receive()
