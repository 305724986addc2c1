"""Vectors of texts in Ollama's form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from edgedec.server.wire.body import RequestBody
from edgedec.server.wire.embedding_request import EmbeddingBody
from edgedec.server.wire.errors import invalid
from edgedec.server.wire.ollama.request import plain_name

if TYPE_CHECKING:
    from edgedec.embed.encoder import Encoded


class EmbedBody(RequestBody):
    """The body of ``POST /api/embed``. Without ``truncate``, texts that are too long are refused."""

    model: str = Field(min_length=1)
    input: Any
    truncate: bool = True
    dimensions: int | None = Field(default=None, ge=1)

    harmless: ClassVar = frozenset({"keep_alive", "options"})

    @property
    def plain(self) -> EmbeddingBody:
        """The body in OpenAI's form. Raises ApiError for one with a field that is not known."""
        self.refuse_others()
        return EmbeddingBody(model=plain_name(self.model), input=self.input, dimensions=self.dimensions)

    def answer(self, found: Encoded) -> dict[str, Any]:
        """Return the vectors. Raises ApiError for a text that was cut where none may be."""
        if found.cut and not self.truncate:
            raise invalid(f"{found.cut} of the texts are longer than the model reads", "input")
        vectors = [vector.tolist() for vector in found.vectors]
        return {"model": self.model, "embeddings": vectors, "prompt_eval_count": found.tokens}
