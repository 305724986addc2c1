"""A draft that is a function of the text alone, for what has to be the same whoever drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from edgedec.draft.lookup import Lookup


@runtime_checkable
class Foreseeing(Protocol):
    """A drafter that can say what may follow as if it had never been asked before."""

    def ahead(self, tokens: Sequence[int], limit: int) -> list[int]:
        """About ``limit`` tokens at most that may follow ``tokens``, the committed ones, most probable first
        to last; none for no idea.
        """
        ...


def lookup_ahead(tokens: Sequence[int], limit: int) -> list[int]:
    """What followed when the end of ``tokens`` stood in them before, at most ``limit`` tokens.

    By a ``Lookup`` of its own, which knows these tokens and no earlier ones.
    """
    lookup = Lookup(len(tokens))
    lookup.begin(tokens, 0)
    return list(lookup.propose(limit).trunk().tokens)
