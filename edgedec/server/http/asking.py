"""Read a body and hand its request to the hub: the part that endpoints of all interfaces share."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.concurrency import run_in_threadpool

from edgedec.core.quick_dataclass import dataclass
from edgedec.server.http.exchange import exchange_of
from edgedec.server.wire.anthropic.request import MessageBody
from edgedec.server.wire.chat_request import ChatBody
from edgedec.server.wire.completion_request import CompletionBody
from edgedec.server.wire.response_request import ResponseBody
from edgedec.server.wire.texts import InfillBody
from edgedec.server.work.text_request import TextRequest

B = TypeVar("B", ChatBody, CompletionBody, ResponseBody, MessageBody, InfillBody)

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from edgedec.server.http.reading import BodyReader
    from edgedec.server.wire.parts import BeginReading
    from edgedec.server.work.hub import Hub
    from edgedec.server.work.intake import Intake
    from edgedec.server.work.request import GenerationRequest
    from edgedec.server.work.ticket import Ticket
    from edgedec.text.reply_reader import ReplyReader


@dataclass(frozen=True, slots=True)
class Asking:
    """Bodies of requests, and the hub that they ask."""

    hub: Hub
    bodies: BodyReader

    async def read(self, request: Request, kind: type[B]) -> tuple[B, GenerationRequest]:
        """Return a body and the request that it makes. Raises ApiError, UsageError."""
        async with self.bodies.body(request) as data:
            return await run_in_threadpool(_asked, kind, data)

    async def submit(self, request: Request, asked: GenerationRequest | TextRequest) -> Ticket:
        """Queue a request; raises as ``Hub.submit``."""
        ticket = await run_in_threadpool(self.hub.submit, asked)
        exchange_of(request.scope).model = ticket.model
        return ticket

    async def answer(self, request: Request, model: str | None, ask: Callable[[Intake], Any]) -> Any:
        """Return what the texts of a model say: its tokenizer and chat template."""
        ticket = await self.submit(request, TextRequest(ask=ask, model=model))
        async for _ in ticket:
            pass
        return ticket.answer


def begun_by(ticket: Ticket) -> BeginReading:
    """Return what makes a reader of a sample, once the prompt is known."""
    return partial(_reader_of, ticket)


def _reader_of(ticket: Ticket) -> ReplyReader:
    """Return the reader of a sample of a chat, behind the text that it goes on with."""
    assert ticket.inputs is not None
    start = ticket.inputs.start
    assert start.reader is not None
    reader = start.reader()
    if start.shown:
        reader.push(start.shown)
    return reader


def _asked(kind: type[B], data: bytes) -> tuple[B, GenerationRequest]:
    body = kind.read(data)
    return body, body.request()
