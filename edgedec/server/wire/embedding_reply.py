"""Vectors of texts in OpenAI's form, and scores of documents in Jina's."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from edgedec.server.wire.embedding_request import EmbeddingBody, RerankBody

if TYPE_CHECKING:
    from edgedec.embed.encoder import Encoded


def embeddings_json(body: EmbeddingBody, model: str, found: Encoded) -> dict[str, Any]:
    """Return the answer to a request for vectors; in base64 they are float32, the lowest byte first."""
    rows: list[Any] = []
    for vector in found.vectors:
        plain = body.encoding_format == "float"
        rows.append(vector.tolist() if plain else b64encode(vector.astype("<f4").tobytes()).decode())
    data = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(rows)]
    usage = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
    return {"object": "list", "data": data, "model": model, "usage": usage, "edgedec": {"cut": found.cut}}


def ranking_json(body: RerankBody, model: str, found: Encoded) -> dict[str, Any]:
    """Return the answer to a request for scores: the best document first, of equal ones the earlier."""
    scores = [float(score) for score in found.vectors[:, 0]]
    best = sorted(range(len(scores)), key=lambda at: -scores[at])[: body.top_n]
    results: list[dict[str, Any]] = [{"index": at, "relevance_score": scores[at]} for at in best]
    if body.return_documents:
        texts = body.texts
        for one in results:
            one["document"] = {"text": texts[one["index"]]}
    usage = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
    own = {"cut": found.cut}
    return {"object": "list", "model": model, "results": results, "usage": usage, "edgedec": own}
