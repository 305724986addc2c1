"""Endpoints of encoders: vectors of texts, and scores of documents."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route

from edgedec.core.quick_dataclass import dataclass
from edgedec.server.http.answers import json_answer
from edgedec.server.http.exchange import exchange_of
from edgedec.server.wire.embedding_reply import embeddings_json, ranking_json
from edgedec.server.wire.embedding_request import EmbeddingBody, RerankBody
from edgedec.server.work.request import Usage

if TYPE_CHECKING:
    from starlette.requests import Request

    from edgedec.embed.encoder import Encoded, Encoder
    from edgedec.server.http.exchange import Exchange
    from edgedec.server.http.reading import BodyReader
    from edgedec.server.work.hub import Hub


@dataclass(frozen=True, slots=True)
class EncoderEndpoints:
    """Endpoints over ``hub``."""

    hub: Hub
    bodies: BodyReader

    def routes(self) -> list[Route]:
        """Return the routes of all endpoints."""
        return [
            Route("/v1/embeddings", self.embeddings, methods=["POST"]),
            Route("/v1/rerank", self.rerank, methods=["POST"]),
        ]

    async def embeddings(self, request: Request) -> Response:
        """Answer with a vector for each text."""
        async with self.bodies.body(request) as data:
            return json_answer(await run_in_threadpool(self._embedded, data, exchange_of(request.scope)))

    async def rerank(self, request: Request) -> Response:
        """Answer with a score for each document."""
        async with self.bodies.body(request) as data:
            return json_answer(await run_in_threadpool(self._ranked, data, exchange_of(request.scope)))

    def _embedded(self, data: bytes, exchange: Exchange) -> dict[str, Any]:
        body = EmbeddingBody.read(data)
        body.refuse_others()
        texts, kind = body.texts, body.kind
        name, found = self.hub.encode(
            body.model, lambda encoder: encoder.embed(texts, kind=kind, dimensions=body.dimensions)
        )
        _note(exchange, name, found)
        return embeddings_json(body, name, found)

    def _ranked(self, data: bytes, exchange: Exchange) -> dict[str, Any]:
        body = RerankBody.read(data)
        body.refuse_others()
        name, found = self.hub.encode(body.model, partial(_ranking, body.query, body.texts))
        _note(exchange, name, found)
        return ranking_json(body, name, found)


def _ranking(query: str, documents: list[str], encoder: Encoder) -> Encoded:
    return encoder.rank(query, documents)


def _note(exchange: Exchange, name: str, found: Encoded) -> None:
    exchange.model, exchange.usage = name, Usage(prompt_tokens=found.tokens)
