"""Bodies that ask for vectors of texts, and for scores of documents."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from edgedec.bundle.embedding_facts import DOCUMENT, QUERY
from edgedec.server.wire.body import BodyPart, Refusal, RequestBody, checked
from edgedec.server.wire.errors import invalid

_MOST_TEXTS = 2048
"""As OpenAI bounds the texts of a request."""
_KINDS = {"query": QUERY, "search_query": QUERY, "document": DOCUMENT, "passage": DOCUMENT,
          "search_document": DOCUMENT}  # fmt: skip
"""Words of other interfaces for what a text is."""


class EmbeddingBody(RequestBody):
    """The body of ``POST /v1/embeddings``; ``input_type`` is a field of other servers."""

    model: str | None = None
    input: Any
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(default=None, ge=1)
    input_type: str | None = None

    @property
    def texts(self) -> list[str | list[int]]:
        """The texts, or their token ids. Raises ApiError."""
        given = self.input if isinstance(self.input, list) and not _is_ids(self.input) else [self.input]
        if not 1 <= len(given) <= _MOST_TEXTS:
            raise invalid(f"input should have 1 to {_MOST_TEXTS} texts, not {len(given)}", "input")
        for at, one in enumerate(given):
            if not isinstance(one, str) and not _is_ids(one):
                raise invalid(f"input[{at}] should be a text, or a list of token ids", f"input[{at}]")
            if not one:
                raise invalid(f"input[{at}] is empty", f"input[{at}]")
        return given

    @property
    def kind(self) -> str | None:
        """The name of the prompt that goes in front of texts. Raises ApiError."""
        if self.input_type is None or self.input_type in _KINDS:
            return _KINDS.get(self.input_type or "")
        words = ", ".join(_KINDS)
        raise invalid(f"input_type should be one of {words}", "input_type")


class Document(BodyPart):
    """A document as an object."""

    text: str


class RerankBody(RequestBody):
    """The body of ``POST /v1/rerank``, as Jina and Cohere have it."""

    model: str | None = None
    query: str = Field(min_length=1)
    documents: list[Any] = Field(min_length=1, max_length=_MOST_TEXTS)
    top_n: int | None = Field(default=None, ge=1)
    return_documents: bool = False

    refused: ClassVar = {
        "rank_fields": Refusal("documents are texts, or objects with a text"),
        "max_chunks_per_doc": Refusal("a document is one piece, and cut at the model's context", 1),
        "max_tokens_per_doc": Refusal("a document is cut at the model's context"),
    }

    @property
    def texts(self) -> list[str]:
        """The documents. Raises ApiError."""
        return [_text(one, at) for at, one in enumerate(self.documents)]


def _is_ids(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(type(one) is int for one in value)


def _text(given: object, at: int) -> str:
    where = f"documents[{at}]"
    if isinstance(given, dict):
        return checked(Document, given, where).text
    if not isinstance(given, str):
        raise invalid(f"{where} should be a text", where)
    return given
