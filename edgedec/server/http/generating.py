"""Run a request for text, and answer with its form: as a stream of events, or in one piece.

A client that goes away cancels its request, also where nothing is streamed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import field
from typing import TYPE_CHECKING

from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool

from edgedec.core.quick_dataclass import dataclass
from edgedec.server.http.answers import error_answer, json_answer
from edgedec.server.http.exchange import Exchange, exchange_of
from edgedec.server.http.faults import noted
from edgedec.server.wire.error_forms import error_json
from edgedec.server.wire.reply_form import ReplyForm
from edgedec.server.wire.usage import MemoryUse, together
from edgedec.server.work.request import Ended, Event, Piece, Usage

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from edgedec.server.wire.errors import ApiError
    from edgedec.server.work.hub import Hub
    from edgedec.server.work.ticket import Ticket

_SILENCE_S = 10.0
"""Time without an event after which a stream gets a sign of life, so that nobody takes it for dead."""
_STREAM = {
    "cache-control": "no-store",
    "x-accel-buffering": "no",
}


@dataclass(slots=True)
class ReplyAnswer:
    """The answer to a request that was queued; an ASGI application."""

    hub: Hub
    ticket: Ticket
    form: ReplyForm
    stream: bool
    _usages: list[Usage] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, until the end of the reply or of the client."""
        exchange = exchange_of(scope)
        answer = (
            self._streamed(exchange, send) if self.stream else self._whole(exchange, scope, receive, send)
        )
        answering, watching = asyncio.create_task(answer), asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({answering, watching}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                await answering
            else:
                exchange.gone = True
        finally:
            self.ticket.cancel()
            for task in (answering, watching):
                task.cancel()
            await asyncio.gather(answering, watching, return_exceptions=True)

    async def _whole(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async for event in self.ticket:
                self._note(exchange, event)
                for _ in self.form.event(event):
                    pass
            answer = json_answer(self.form.whole(await self._memory()))
        except Exception as error:  # whatever it is, the client gets an answer
            answer = error_answer(noted(error, exchange), exchange.path)
        await answer(scope, receive, send)

    async def _streamed(self, exchange: Exchange, send: Send) -> None:
        started, framing = False, self.form.framing
        try:
            async for event in _patient(self.ticket):
                if not started:
                    started = True
                    await _start(send, 200, {"content-type": framing.media_type, **_STREAM})
                    await _send(send, framing.encoded(self.form.opening()))
                if event is None:
                    await _send(send, framing.waiting)
                    continue
                self._note(exchange, event)
                await _send(send, framing.encoded(self.form.event(event)))
            last = framing.encoded(self.form.closing(await self._memory())) + framing.last
        except Exception as error:  # whatever it is, the client gets an answer
            found = noted(error, exchange)
            if not started:
                headers = {"content-type": "application/json", **found.headers}
                await _start(send, found.status, headers)
            last = framing.encoded(self.form.failing(found)) if started else self._error(found, exchange)
        await send({"type": "http.response.body", "body": last})

    @staticmethod
    def _error(error: ApiError, exchange: Exchange) -> bytes:
        return to_json(error_json(error, exchange.path))

    def _note(self, exchange: Exchange, event: Event) -> None:
        if isinstance(event, Piece):
            exchange.first_token()
        elif isinstance(event, Ended):
            self._usages.append(event.usage)
            exchange.reasons.append(event.reason)
            exchange.usage = together(self._usages)

    async def _memory(self) -> MemoryUse:
        status = await run_in_threadpool(self.hub.status)
        return MemoryUse(status.memory_bytes, status.memory_budget_bytes)


async def _patient(ticket: Ticket) -> AsyncIterator[Event | None]:
    """Yield the events of a ticket, and None after each stretch of silence."""
    events = aiter(ticket)
    while True:
        coming = asyncio.ensure_future(_next(events))
        try:
            while not (await asyncio.wait({coming}, timeout=_SILENCE_S))[0]:
                yield None
        finally:
            coming.cancel()
        if (event := coming.result()) is None:
            return
        yield event


async def _next(events: AsyncIterator[Event]) -> Event | None:
    return await anext(events, None)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _start(send: Send, status: int, headers: dict[str, str]) -> None:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


async def _send(send: Send, data: bytes) -> None:
    if data:
        await send({"type": "http.response.body", "body": data, "more_body": True})
