"""Endpoints of OpenAI's interface, and of the server itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route

from edgedec.core.quick_dataclass import dataclass
from edgedec.server.http.answers import json_answer
from edgedec.server.http.asking import Asking, B, begun_by
from edgedec.server.http.encoding import EncoderEndpoints
from edgedec.server.http.generating import ReplyAnswer
from edgedec.server.http.messages import MessageEndpoints
from edgedec.server.http.ollama import OllamaEndpoints
from edgedec.server.http.page import html_of, page_routes
from edgedec.server.http.reading import BodyReader
from edgedec.server.http.texts import TextEndpoints
from edgedec.server.wire.chat_reply import ChatReply
from edgedec.server.wire.chat_request import ChatBody
from edgedec.server.wire.completion_reply import CompletionReply
from edgedec.server.wire.completion_request import CompletionBody
from edgedec.server.wire.errors import ApiError
from edgedec.server.wire.markdown_request import MarkdownBody
from edgedec.server.wire.models import model_json, models_json
from edgedec.server.wire.openapi import openapi_json
from edgedec.server.wire.response_reply import ResponseReply
from edgedec.server.wire.response_request import ResponseBody

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from edgedec.server.http.metrics import Metrics
    from edgedec.server.wire.parts import BeginReading
    from edgedec.server.wire.reply_form import ReplyForm
    from edgedec.server.work.hub import Hub


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Endpoints over ``hub``."""

    hub: Hub
    bodies: BodyReader
    metrics: Metrics

    def routes(self) -> list[Route]:
        """Return the routes of all endpoints."""
        return [
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
            Route("/v1/completions", self.completion, methods=["POST"]),
            Route("/v1/responses", self.response, methods=["POST"]),
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.model),
            Route("/openapi.json", self.description),
            Route("/health", self.health),
            Route("/metrics", self.figures),
            Route("/edgedec/status", self.status),
            Route("/edgedec/markdown", self.markdown, methods=["POST"]),
            *MessageEndpoints(self._asking).routes(),
            *OllamaEndpoints(self._asking).routes(),
            *EncoderEndpoints(self.hub, self.bodies).routes(),
            *TextEndpoints(self._asking).routes(),
            *page_routes(),
        ]

    async def chat(self, request: Request) -> ReplyAnswer:
        """Answer with the next reply of a chat."""
        return await self._reply(request, ChatBody, ChatReply)

    async def completion(self, request: Request) -> ReplyAnswer:
        """Answer with the continuation of a text."""
        return await self._reply(request, CompletionBody, CompletionReply)

    async def response(self, request: Request) -> ReplyAnswer:
        """Answer with a response."""
        return await self._reply(request, ResponseBody, ResponseReply)

    async def markdown(self, request: Request) -> Response:
        """Return Markdown as HTML."""
        async with self.bodies.body(request) as data:
            body = await run_in_threadpool(MarkdownBody.read, data)
        return json_answer({"html": await run_in_threadpool(html_of, body.text)})

    async def models(self, request: Request) -> Response:
        """List the models."""
        return json_answer(models_json(await run_in_threadpool(self.hub.models)))

    async def model(self, request: Request) -> Response:
        """Describe one model."""
        name = request.path_params["name"]
        for one in await run_in_threadpool(self.hub.models):
            if one.name == name:
                return json_answer(model_json(one))
        raise _no_model(name)

    async def description(self, request: Request) -> Response:
        """Describe the interface."""
        return json_answer(await run_in_threadpool(openapi_json))

    async def health(self, request: Request) -> Response:
        """Say that the server runs, or that it is shutting down."""
        closing = (await run_in_threadpool(self.hub.status)).closing
        return json_answer({"status": "shutting down" if closing else "ok"}, 503 if closing else 200)

    async def figures(self, request: Request) -> Response:
        """Return the figures for Prometheus."""
        text = await run_in_threadpool(self.metrics.text)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def status(self, request: Request) -> Response:
        """Return the state of the server."""
        return json_answer((await run_in_threadpool(self.hub.status)).as_json())

    async def _reply(
        self, request: Request, kind: type[B], form: Callable[[B, str, BeginReading], ReplyForm]
    ) -> ReplyAnswer:
        body, asked = await self._asking.read(request, kind)
        ticket = await self._asking.submit(request, asked)
        reply = form(body, ticket.model, begun_by(ticket))
        return ReplyAnswer(self.hub, ticket, reply, body.stream)

    @property
    def _asking(self) -> Asking:
        return Asking(self.hub, self.bodies)


def _no_model(name: str) -> ApiError:
    return ApiError(404, f"there is no model {name[:100]!r} here", param="model", code="model_not_found")
