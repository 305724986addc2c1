"""The page that describes the server's interface, made of the types of its bodies."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from edgedec.core.version import __version__
from edgedec.server.wire.anthropic.request import MessageBody
from edgedec.server.wire.chat_request import ChatBody
from edgedec.server.wire.completion_request import CompletionBody
from edgedec.server.wire.embedding_request import EmbeddingBody, RerankBody
from edgedec.server.wire.markdown_request import MarkdownBody
from edgedec.server.wire.ollama.embedding import EmbedBody
from edgedec.server.wire.ollama.pulling import ModelBody, PullBody
from edgedec.server.wire.ollama.request import GenerateBody, OllamaChatBody
from edgedec.server.wire.response_request import ResponseBody
from edgedec.server.wire.texts import DetokenizeBody, InfillBody, TokenizeBody

_BODIES: dict[str, tuple[type[BaseModel], str]] = {
    "/v1/chat/completions": (ChatBody, "The next reply of a chat"),
    "/v1/completions": (CompletionBody, "The continuation of a text, or the text of a gap"),
    "/v1/responses": (ResponseBody, "A response"),
    "/v1/embeddings": (EmbeddingBody, "Vectors of texts"),
    "/v1/rerank": (RerankBody, "Scores of documents"),
    "/v1/messages": (MessageBody, "A message in Anthropic's form"),
    "/v1/messages/count_tokens": (MessageBody, "The tokens of a message's prompt"),
    "/api/chat": (OllamaChatBody, "The next reply of a chat in Ollama's form"),
    "/api/generate": (GenerateBody, "The answer to a prompt in Ollama's form"),
    "/api/embed": (EmbedBody, "Vectors of texts in Ollama's form"),
    "/api/show": (ModelBody, "All about an installed model"),
    "/api/pull": (PullBody, "Fetch a model"),
    "/tokenize": (TokenizeBody, "The tokens of a text"),
    "/detokenize": (DetokenizeBody, "The text of tokens"),
    "/apply-template": (ChatBody, "The prompt that a chat makes"),
    "/infill": (InfillBody, "The text between two others"),
    "/edgedec/markdown": (MarkdownBody, "Markdown as HTML"),
}
_PAGES = {
    "/v1/models": "Installed models",
    "/v1/models/{name}": "One installed model",
    "/health": "Whether the server runs",
    "/metrics": "Figures for Prometheus",
    "/edgedec/status": "Models, slots, queue and memory",
    "/api/tags": "Installed models in Ollama's form",
    "/api/ps": "Models that are open",
    "/api/version": "Versions",
}
_REFERENCE = "#/components/schemas/{model}"
_ANSWERS = {"200": {"description": "the answer"}, "default": {"description": "an error, in one line"}}


@cache
def openapi_json() -> dict[str, Any]:
    """Return the description, in OpenAPI 3.1."""
    kinds = list(dict.fromkeys(body for body, _ in _BODIES.values()))
    _, found = models_json_schema([(kind, "validation") for kind in kinds], ref_template=_REFERENCE)
    paths: dict[str, Any] = {path: {"get": _page(path, about)} for path, about in _PAGES.items()}
    for path, (body, about) in _BODIES.items():
        schema = {"$ref": _REFERENCE.format(model=body.__name__)}
        content = {"required": True, "content": {"application/json": {"schema": schema}}}
        paths[path] = {"post": {"summary": about, "requestBody": content, "responses": _ANSWERS}}
    key = {"key": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "EdgeDec", "version": __version__},
        "paths": paths,
        "components": {"schemas": found["$defs"], "securitySchemes": key},
        "security": [{"key": []}, {}],
    }


def _page(path: str, about: str) -> dict[str, Any]:
    """Return the description of a path that takes no body."""
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    parameters = [name] if "{name}" in path else []
    return {"summary": about, "parameters": parameters, "responses": _ANSWERS}
