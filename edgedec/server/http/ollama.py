"""Endpoints of Ollama's interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route

from edgedec.core.quick_dataclass import dataclass
from edgedec.core.version import __version__
from edgedec.server.http.answers import json_answer
from edgedec.server.http.asking import Asking, begun_by
from edgedec.server.http.exchange import exchange_of
from edgedec.server.http.generating import ReplyAnswer
from edgedec.server.http.pulling import pull_answer
from edgedec.server.wire.errors import ApiError, invalid
from edgedec.server.wire.ollama.embedding import EmbedBody
from edgedec.server.wire.ollama.models import VERSION, listed, running, shown
from edgedec.server.wire.ollama.pulling import ModelBody, PullBody
from edgedec.server.wire.ollama.reply import OllamaReply, opened
from edgedec.server.wire.ollama.request import GenerateBody, OllamaBody, OllamaChatBody, plain_name
from edgedec.server.work.facts import ModelFacts, facts_of
from edgedec.server.work.request import Usage

if TYPE_CHECKING:
    from starlette.requests import Request

    from edgedec.server.http.exchange import Exchange
    from edgedec.server.work.hub import Hub
    from edgedec.server.work.request import GenerationRequest

M = TypeVar("M", OllamaChatBody, GenerateBody, EmbedBody, ModelBody, PullBody)


@dataclass(frozen=True, slots=True)
class OllamaEndpoints:
    """Endpoints over the hub of ``asking``."""

    asking: Asking

    @property
    def hub(self) -> Hub:
        """The models."""
        return self.asking.hub

    def routes(self) -> list[Route]:
        """Return the routes of all endpoints."""
        return [
            Route("/api/chat", self.ollama_chat, methods=["POST"]),
            Route("/api/generate", self.generate, methods=["POST"]),
            Route("/api/embed", self.embed, methods=["POST"]),
            Route("/api/tags", self.tags),
            Route("/api/show", self.show, methods=["POST"]),
            Route("/api/ps", self.running),
            Route("/api/version", self.version),
            Route("/api/pull", self.pull, methods=["POST"]),
            Route("/api/delete", self.delete, methods=["DELETE"]),
        ]

    async def ollama_chat(self, request: Request) -> ReplyAnswer | Response:
        """Answer with the next reply of a chat."""
        body = await self._read(request, OllamaChatBody)
        if not body.asks:
            return await self._opened(request, body, chat=True)
        return await self._reply(request, body, await run_in_threadpool(body.request), chat=True)

    async def generate(self, request: Request) -> ReplyAnswer | Response:
        """Answer a prompt."""
        body = await self._read(request, GenerateBody)
        if not body.asks:
            return await self._opened(request, body, chat=False)
        chats = await run_in_threadpool(self.hub.chats, plain_name(body.model))
        asked = await run_in_threadpool(body.request, chats=chats)
        return await self._reply(request, body, asked, chat=False)

    async def embed(self, request: Request) -> Response:
        """Answer with a vector for each text."""
        body = await self._read(request, EmbedBody)
        return json_answer(await run_in_threadpool(self._embedded, body, exchange_of(request.scope)))

    async def tags(self, request: Request) -> Response:
        """List the installed models."""
        found = await run_in_threadpool(self._facts)
        return json_answer({"models": [listed(one) for one in found.values()]})

    async def show(self, request: Request) -> Response:
        """Say all about a model."""
        body = await self._read(request, ModelBody)
        body.refuse_others(("system", "template"))
        return json_answer(shown(await run_in_threadpool(self._fact, body.named)))

    async def running(self, request: Request) -> Response:
        """List the models that are open."""
        found, status = await run_in_threadpool(self._facts), await run_in_threadpool(self.hub.status)
        ready = [one for one in status.models if one.state == "ready" and one.name in found]
        return json_answer({"models": [running(found[one.name], one) for one in ready]})

    async def version(self, request: Request) -> Response:
        """Return the version of Ollama that the answers are like, and this program's own."""
        return json_answer({"version": VERSION, "edgedec": __version__})

    async def pull(self, request: Request) -> Response:
        """Fetch a model that has a name, of the catalogue or on the model hub."""
        body = await self._read(request, PullBody)
        body.refuse_others()
        await run_in_threadpool(self.hub.check_name, body.named)
        return await pull_answer(body.named, self.hub.pull, exchange_of(request.scope), stream=body.stream)

    async def delete(self, request: Request) -> Response:
        """Refuse to remove a model."""
        raise ApiError(403, "clients cannot remove models; that is done on the machine of the server")

    async def _read(self, request: Request, kind: type[M]) -> M:
        async with self.asking.bodies.body(request, any_type=True) as data:
            return await run_in_threadpool(kind.read, data)

    async def _reply(
        self, request: Request, body: OllamaBody, asked: GenerationRequest, *, chat: bool
    ) -> ReplyAnswer:
        ticket = await self.asking.submit(request, asked)
        begin = begun_by(ticket) if asked.messages else None
        return ReplyAnswer(self.hub, ticket, OllamaReply(body, begin, chat=chat), body.stream)

    async def _opened(self, request: Request, body: OllamaBody, *, chat: bool) -> Response:
        body.refuse_others()
        if body.closes:
            raise invalid("models are closed when others need their room, not on request", "keep_alive")
        name = exchange_of(request.scope).model = plain_name(body.model)
        await run_in_threadpool(self.hub.load, name)
        return json_answer(opened(body.model, chat=chat))

    def _embedded(self, body: EmbedBody, exchange: Exchange) -> dict[str, Any]:
        texts = body.plain.texts
        exchange.model, found = self.hub.encode(
            body.plain.model, lambda encoder: encoder.embed(texts, dimensions=body.dimensions)
        )
        exchange.usage = Usage(prompt_tokens=found.tokens)
        return body.answer(found)

    def _facts(self) -> dict[str, ModelFacts]:
        return {one.name: facts_of(one) for one in self.hub.store.list()}

    def _fact(self, name: str) -> ModelFacts:
        """Return the facts about one model. Raises NotFoundError."""
        bundle = self.hub.store.path(name)
        return facts_of(next(one for one in self.hub.store.list() if one.path == bundle))
