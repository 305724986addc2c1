"""Tell the parts of a reply's text: reasoning and content."""

from __future__ import annotations

from dataclasses import dataclass

from edgedec.server.work.request import TracedToken
from edgedec.text.thinking import ThinkingSplitter


@dataclass(frozen=True, slots=True)
class ReadText:
    """Text that is certain now, and the tokens behind the content."""

    reasoning: str = ""
    content: str = ""
    tokens: tuple[TracedToken, ...] = ()
    thought_tokens: int = 0
    """Tokens behind the reasoning."""


class SampleReader:
    """Reads the text of one sample piece by piece."""

    def __init__(self) -> None:
        self._splitter = ThinkingSplitter()
        self._held: list[TracedToken] = []

    def push(self, text: str, tokens: tuple[TracedToken, ...]) -> ReadText:
        """Add a piece; return what it makes certain."""
        self._held += tokens
        return self._reading(*self._splitter.push(text))

    def flush(self) -> ReadText:
        """End the text; return what was held back."""
        return self._reading(*self._splitter.flush())

    def _reading(self, reasoning: str, content: str) -> ReadText:
        if not reasoning and not content and not self._splitter.over:
            return ReadText()
        held, self._held = tuple(self._held), []
        if reasoning and not content:
            return ReadText(reasoning, thought_tokens=len(held))
        return ReadText(reasoning, content, held)
