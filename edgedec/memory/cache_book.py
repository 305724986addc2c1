"""The rules of ``Forward``'s cache, written once for all backends.

A cache is a row of slots. Tokens of a pass take the next slots in the order given; after a chain, slot
equals position. After a pass over a tree it does not (siblings share a position), so the pass must be settled
before the next one: ``keep_path`` keeps one root path and moves its tokens together, ``rewind`` drops the
pass, or all of it but a beginning that is a chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from operator import eq

import numpy as np

from edgedec.core.errors import ContextFullError
from edgedec.core.types import IntArray

_ROOT: IntArray = np.array([-1], dtype=np.int64)
_NOTHING: IntArray = np.array([], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass that fits: it starts at slot ``start``; parents and positions are i64[T]."""

    start: int
    parents: IntArray
    positions: IntArray
    chain: bool

    def __len__(self) -> int:
        return int(self.parents.size)


class CacheBook:
    """Which slots are taken, and by what kind of pass."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._length = 0
        self._last: Pass | None = None

    @property
    def length(self) -> int:
        """Slots taken."""
        return self._length

    @property
    def settled(self) -> bool:
        """Whether the next pass may come."""
        return self._last is None or self._last.chain

    def plan(self, tokens: int, parents: Sequence[int] | None) -> Pass:
        """Check a pass over ``tokens`` tokens; nothing changes until ``append``.

        Raises ValueError when it is malformed or a tree waits to be settled, ContextFullError when it does
        not fit.
        """
        if tokens < 1:
            raise ValueError("a pass needs at least one token")
        if not self.settled:
            raise ValueError("settle the tree of the last pass (keep_path or rewind) before the next pass")
        self.check_room(tokens)
        start = self._length
        if tokens == 1 and parents is None:  # the frequent case
            return Pass(start, _ROOT, np.array([start], dtype=np.int64), True)
        chain = np.arange(-1, tokens - 1, dtype=np.int64)
        if parents is None:
            return Pass(start, chain, np.arange(start, start + tokens, dtype=np.int64), True)
        given = _checked_parents(parents, tokens)
        return Pass(start, given, start + _depths(given), bool((given == chain).all()))

    def check_room(self, tokens: int) -> None:
        """Raises ContextFullError unless ``tokens`` more fit."""
        if self._length + tokens > self.capacity:
            raise ContextFullError(
                f"{tokens} more tokens do not fit: the context holds {self.capacity} and has {self._length}",
                hint="shorten the prompt or use a larger context",
            )

    def append(self, done: Pass) -> None:
        """Record that ``done`` was computed."""
        self._length = done.start + len(done)
        self._last = done

    def rewind(self, length: int) -> None:
        """Free every slot from ``length`` on. Raises ValueError when that is not possible."""
        if not 0 <= length <= self._length:
            raise ValueError(f"cannot rewind to {length}: the cache holds {self._length} tokens")
        if length == self._length and self.settled:
            return
        kept = length - self._last.start if self._last else 0
        if self._last and not self._last.chain and kept > 0:
            chain = np.arange(-1, kept - 1)
            if not (self._last.parents[:kept] == chain).all():
                raise ValueError(f"cannot rewind to {length}, inside a tree: keep a path instead")
        self._length = length
        self._last = None

    def keep(self, nodes: Sequence[int]) -> tuple[IntArray, IntArray]:
        """Settle the last pass to the path ``nodes``; returns slots (from, to) that the backend must copy.

        Read all "from" slots before writing any "to" slot. Raises ValueError unless ``nodes`` is a root path
        of the last pass.
        """
        if self._last is None:
            raise ValueError("there is no pass to keep a path of")
        # The frequent case: a beginning, which stays where it is.
        if self._last.chain and len(nodes) <= len(self._last) and all(map(eq, nodes, count())):
            self._length = self._last.start + len(nodes)
            self._last = None
            return _NOTHING, _NOTHING
        path = _checked_path(nodes, self._last.parents)
        target = np.arange(path.size, dtype=np.int64)
        moved = path != target
        start = self._last.start
        self._length = start + path.size
        self._last = None
        return start + path[moved], start + target[moved]


def _checked_parents(parents: Sequence[int], tokens: int) -> IntArray:
    given = np.asarray(parents, dtype=np.int64)
    if given.shape != (tokens,):
        raise ValueError(f"{given.size} parents for {tokens} tokens")
    wrong = np.flatnonzero((given < -1) | (given >= np.arange(tokens)))
    if wrong.size:
        at = int(wrong[0])
        raise ValueError(f"parent {given[at]} of token {at}: it must be -1 or an earlier token of the pass")
    return given


def _depths(parents: IntArray) -> IntArray:
    depths = np.zeros(parents.size, dtype=np.int64)
    for node, parent in enumerate(parents.tolist()):
        if parent >= 0:
            depths[node] = depths[parent] + 1
    return depths


def _checked_path(nodes: Sequence[int], parents: IntArray) -> IntArray:
    path = np.asarray(nodes, dtype=np.int64).reshape(-1)
    parent = -1
    for node in path.tolist():
        if not 0 <= node < parents.size or parents[node] != parent:
            raise ValueError(f"nodes {list(nodes)} are not a root path of the last pass")
        parent = node
    return path
