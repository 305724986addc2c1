"""A large model that is elsewhere and speaks in text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class TextSide(Protocol):
    """Continues a text. It reads the whole text each time, and remembers nothing between two calls."""

    @property
    def name(self) -> str:
        """The model and the place where it runs, for the user."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the latest continuation ended where the model ended its turn."""
        ...

    def continued(self, text: str, most_tokens: int) -> Iterator[str]:
        """Continue ``text`` by at most ``most_tokens`` tokens of the model; yields pieces as they come.

        ``text`` is the conversation as the local model's template renders it, control tokens spelled out,
        with the reply so far. The caller may stop iterating at any time. Raises ``core.errors.SideLost``,
        also between two pieces, when the model cannot be reached, is too slow or answers nonsense.
        """
        ...
