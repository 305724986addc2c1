"""What every drafter is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from edgedec.core.rows import HeadRows
from edgedec.core.tree import DraftTree
from edgedec.sampling import SamplingParams


class Drafter(Protocol):
    """Guesses what the target will say next. A wrong guess costs time and never changes what is said."""

    @property
    def name(self) -> str: ...

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        """A new sequence of committed tokens; its first ``kept`` are the first of the one before."""
        ...

    def commit(self, tokens: Sequence[int]) -> None:
        """These follow the committed sequence."""
        ...

    def learn(self, tree: DraftTree, rows: HeadRows) -> None:
        """The target's answers of a pass, before any of it is committed.

        rows[0] answers the last committed token and rows[1 + i] node i of ``tree``, rejected ones included.
        """
        ...

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        """At most ``limit`` tokens that may follow, parents before children; an empty tree for no idea.

        A token whose path is less probable than ``floor`` will not be fed: it need not be drafted.
        """
        ...

    def nbytes(self) -> int:
        """Bytes held; bounded by what the drafter was made with."""
        ...


@runtime_checkable
class Keyed(Protocol):
    """A drafter that wants to know how the target draws: its noise is a function of seed and position."""

    def sampled(self, params: SamplingParams) -> None:
        """The replies that follow are drawn like this; called before ``begin``."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """A drafter whose knowledge can outlive the process."""

    def saved(self) -> bytes:
        """What it knows, in at most about ``nbytes()`` bytes."""
        ...

    def restore(self, data: bytes, vocab_size: int) -> None:
        """Know what was ``saved``; called before the first ``begin``.

        Raises ValueError, and stays as it was, for what no such drafter saved, or for another vocabulary.
        """
        ...
