"""The interface of one round of control: query drafters, feed some of their tokens, settle the outcome.

A round is used once, in this order: ``draft``, then ``settle``. ``ControlledRound`` decides by measurements,
``UncontrolledRound`` feeds whatever there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from edgedec.core.quick_dataclass import dataclass
from edgedec.core.tree import EMPTY, DraftTree


@dataclass(frozen=True, slots=True)
class Query:
    """Query drafter ``name`` for at most ``limit`` tokens with paths at least as probable as ``floor``."""

    name: str
    limit: int
    floor: float


class DraftAnswer(NamedTuple):
    """A drafter's answer to a query."""

    tree: DraftTree
    seconds: float
    """Time that the drafter took."""
    peeked: int = 0
    """Tokens that the pass need not compute from the beginning: the last committed one, then the drafted ones
    along the first path of ``tree``.
    """


Ask = Callable[[Query], DraftAnswer | None]
"""Queries a drafter; None when it failed and is gone."""


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """Seconds of one round."""

    passing: float | None
    """The pass; None: not measured."""
    drafting: float = 0.0
    """Drafting, learning and planning."""
    verifying: float = 0.0
    """Verification; plain decoding has it too, for one token."""
    luck: float = 0.0
    """Waits for reads beyond those that ``passing`` has of them."""

    def scaled(self, scale: float) -> RoundTimes:
        """Return times ``scale`` times as long."""
        passing = None if self.passing is None else scale * self.passing
        return RoundTimes(passing, scale * self.drafting, scale * self.verifying, self.luck)


class Round(Protocol):
    """One round."""

    @property
    def resting(self) -> bool:
        """Whether no drafter is queried in this round, which is decided before it."""
        ...

    @property
    def unprofitable(self) -> bool:
        """Whether it rests because no draft can win what querying and learning take, as passes cost now."""
        ...

    def draft(self, ask: Ask, certain: DraftTree = EMPTY) -> DraftTree:
        """Query drafters and return the tree to feed behind the last committed token.

        ``certain``: a draft that is there already, at no cost.
        """
        ...

    @property
    def pass_s(self) -> float:
        """Seconds that the pass over the draft takes by the costs known before it; 0 without costs."""
        ...

    def settle(self, committed: Sequence[int], times: RoundTimes) -> None:
        """Note what was committed and how long it took."""
        ...
