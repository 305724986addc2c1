"""Limits on text that is to become tokens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from edgedec.core.errors import ContextFullError
from edgedec.core.quick_dataclass import dataclass


def no_lease(nbytes: int) -> AbstractContextManager[object]:
    """Book nothing: there is no memory budget."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Most tokens that a text may become, and the memory that making them may take.

    The context holds ``context`` tokens; a text may become ``times`` as many. ``lease`` books bytes for the
    length of a ``with`` block; it raises MemoryBudgetError if there are none.
    """

    context: int
    lease: Callable[[int], AbstractContextManager[object]] = no_lease
    times: int = 1

    @property
    def most_tokens(self) -> int:
        """The limit in tokens."""
        return self.times * self.context

    def check(self, tokens: int) -> None:
        """Raise ContextFullError if ``tokens`` is above the limit."""
        if tokens > self.most_tokens:
            raise self.error()

    def error(self) -> ContextFullError:
        """Make the error for a text of more tokens than the limit."""
        return ContextFullError(
            f"the prompt has more than {self.most_tokens} tokens, and the context holds {self.context}",
            hint=f"shorten it to at most {self.context - 1} or use a larger context",
        )
