"""Limits on text that is to become tokens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from edgedec.core.errors import ContextFullError


def no_lease(nbytes: int) -> AbstractContextManager[object]:
    """Book nothing: there is no memory budget."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Most tokens that a text may become, and the memory that making them may take.

    ``lease`` books bytes for the length of a ``with`` block; it raises MemoryBudgetError if there are none.
    """

    most_tokens: int
    lease: Callable[[int], AbstractContextManager[object]] = no_lease

    def check(self, tokens: int) -> None:
        """Raise ContextFullError if ``tokens`` is above the limit."""
        if tokens > self.most_tokens:
            raise too_long(self.most_tokens)


def too_long(most_tokens: int) -> ContextFullError:
    """Return the error for a text of more than ``most_tokens`` tokens."""
    return ContextFullError(
        f"the prompt has more than {most_tokens} tokens, and the context holds {most_tokens}",
        hint=f"shorten it to at most {most_tokens - 1} or use a larger context",
    )
