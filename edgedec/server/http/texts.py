"""Endpoints about texts, tokens and gaps, as llama.cpp's server has them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route

from edgedec.core.quick_dataclass import dataclass
from edgedec.server.http.answers import json_answer
from edgedec.server.http.asking import Asking
from edgedec.server.http.generating import ReplyAnswer
from edgedec.server.wire.chat_request import ChatBody
from edgedec.server.wire.infill_reply import InfillReply
from edgedec.server.wire.texts import DetokenizeBody, InfillBody, TokenizeBody

if TYPE_CHECKING:
    from starlette.requests import Request

    from edgedec.server.work.intake import Intake
    from edgedec.server.work.request import GenerationRequest

T = TypeVar("T", TokenizeBody, DetokenizeBody)


@dataclass(frozen=True, slots=True)
class TextEndpoints:
    """Endpoints over the hub of ``asking``."""

    asking: Asking

    def routes(self) -> list[Route]:
        """Return the routes of all endpoints."""
        return [
            Route("/tokenize", self.tokenize, methods=["POST"]),
            Route("/detokenize", self.detokenize, methods=["POST"]),
            Route("/apply-template", self.apply_template, methods=["POST"]),
            Route("/infill", self.infill, methods=["POST"]),
        ]

    async def tokenize(self, request: Request) -> Response:
        """Return the tokens of a text."""
        body = await self._read(request, TokenizeBody)
        found = await self.asking.answer(request, body.model, partial(_tokens, body))
        return json_answer({"tokens": found})

    async def detokenize(self, request: Request) -> Response:
        """Return the text of tokens."""
        body = await self._read(request, DetokenizeBody)
        return json_answer({"content": await self.asking.answer(request, body.model, partial(_text, body))})

    async def apply_template(self, request: Request) -> Response:
        """Return the prompt that a chat makes."""
        _, asked = await self.asking.read(request, ChatBody)
        return json_answer(
            {"prompt": await self.asking.answer(request, asked.model, partial(_rendered, asked))}
        )

    async def infill(self, request: Request) -> ReplyAnswer:
        """Answer with the text between two others."""
        body, asked = await self.asking.read(request, InfillBody)
        ticket = await self.asking.submit(request, asked)
        return ReplyAnswer(self.asking.hub, ticket, InfillReply(body, ticket.model), body.stream)

    async def _read(self, request: Request, kind: type[T]) -> T:
        async with self.asking.bodies.body(request) as data:
            body = await run_in_threadpool(kind.read, data)
        body.refuse_others()
        return body


def _tokens(body: TokenizeBody, intake: Intake) -> list[Any]:
    ids = intake.tokens(body.content, add_bos=body.add_special, parse_special=body.parse_special)
    return [{"id": id, "piece": _piece(intake.piece(id))} for id in ids] if body.with_pieces else ids


def _piece(piece: bytes) -> str | list[int]:
    """Return a piece as text; a part of a character as its bytes."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)


def _text(body: DetokenizeBody, intake: Intake) -> str:
    return intake.text_of(body.tokens)


def _rendered(request: GenerationRequest, intake: Intake) -> str:
    return intake.rendered(request)
