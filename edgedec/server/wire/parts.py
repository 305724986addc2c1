"""The parts of a sample's text, with the tokens behind them: reasoning, content, calls of tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from edgedec.core.quick_dataclass import dataclass
from edgedec.server.work.request import TracedToken
from edgedec.text.reply_reader import ReplyParts

if TYPE_CHECKING:
    from edgedec.text.reply_reader import ReplyReader

BeginReading = Callable[[], "ReplyReader"]
"""Makes the reader of a sample, once its prompt is known."""


@dataclass(frozen=True, slots=True)
class ReadText:
    """Text that is certain now, and the tokens behind its content."""

    parts: ReplyParts = ReplyParts()
    tokens: tuple[TracedToken, ...] = ()
    thought_tokens: int = 0
    """Tokens behind the reasoning."""


class SampleReader:
    """Reads the text of one sample piece by piece; ``several``: whether it may have more than one call."""

    def __init__(self, begin: BeginReading, *, several: bool = True) -> None:
        self._begin, self._several = begin, several
        self._reader: ReplyReader | None = None
        self._held: list[TracedToken] = []

    @property
    def calls(self) -> int:
        """The number of calls so far."""
        return self._reader.calls if self._reader else 0

    def push(self, text: str, tokens: tuple[TracedToken, ...]) -> ReadText:
        """Add a piece; return what it makes certain."""
        self._reader = self._reader or self._begin()
        self._held += tokens
        parts = self._reader.push(text)
        if not (parts.content or parts.reasoning or parts.calls):
            return ReadText()
        return self._read(parts)

    def flush(self) -> ReadText:
        """End the text; return what was held back."""
        return self._read(self._reader.flush()) if self._reader else ReadText()

    def _read(self, parts: ReplyParts) -> ReadText:
        held, self._held = tuple(self._held), []
        if not self._several:
            parts = replace(parts, calls=tuple(one for one in parts.calls if not one.index))
        if parts.content or not (parts.reasoning or self.calls):
            return ReadText(parts, held)
        return ReadText(parts, thought_tokens=len(held) if parts.reasoning else 0)
