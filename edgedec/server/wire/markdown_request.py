"""The body of a request for HTML."""

from __future__ import annotations

from pydantic import Field

from edgedec.server.wire.body import RequestBody

_MOST_CHARS = 100_000


class MarkdownBody(RequestBody):
    """The body of ``POST /edgedec/markdown``."""

    text: str = Field(max_length=_MOST_CHARS)
