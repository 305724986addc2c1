"""Endpoints of Anthropic's interface."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from edgedec.core.quick_dataclass import dataclass
from edgedec.server.http.answers import json_answer
from edgedec.server.http.asking import Asking, begun_by
from edgedec.server.http.generating import ReplyAnswer
from edgedec.server.wire.anthropic.reply import MessageReply
from edgedec.server.wire.anthropic.request import MessageBody

if TYPE_CHECKING:
    from starlette.requests import Request

    from edgedec.server.work.intake import Intake
    from edgedec.server.work.request import GenerationRequest
    from edgedec.server.work.ticket import Ticket


@dataclass(frozen=True, slots=True)
class MessageEndpoints:
    """Endpoints over the hub of ``asking``."""

    asking: Asking

    def routes(self) -> list[Route]:
        """Return the routes of all endpoints."""
        return [
            Route("/v1/messages", self.message, methods=["POST"]),
            Route("/v1/messages/count_tokens", self.count, methods=["POST"]),
        ]

    async def message(self, request: Request) -> ReplyAnswer:
        """Answer with the next message of a chat."""
        body, asked = await self.asking.read(request, MessageBody)
        ticket = await self.asking.submit(request, asked)
        reply = MessageReply(body, ticket.model, begun_by(ticket), partial(_prompt_tokens, ticket))
        return ReplyAnswer(self.asking.hub, ticket, reply, body.stream)

    async def count(self, request: Request) -> Response:
        """Count the tokens of the prompt that a body makes."""
        _, asked = await self.asking.read(request, MessageBody)
        count = await self.asking.answer(request, asked.model, partial(_counted, asked))
        return json_answer({"input_tokens": count})


def _prompt_tokens(ticket: Ticket) -> int:
    """Return the tokens of a prompt; 0 while it waits to be read."""
    return len(ticket.inputs.prompt) if ticket.inputs else 0


def _counted(request: GenerationRequest, intake: Intake) -> int:
    return len(intake.inputs(request).prompt)
