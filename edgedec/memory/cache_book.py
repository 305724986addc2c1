"""The rules of ``Forward``'s cache, written once for all backends.

A cache is a row of slots. Tokens of a pass take the next slots in the order given; after a chain, slot
equals position. After a pass over a tree it does not (siblings share a position), so the pass must be settled
before the next one: ``keep_path`` keeps one root path and moves its tokens together, ``rewind`` drops the
pass, or all of it but a beginning that is a chain.

``evict`` lets tokens go from the midst, of a zone all or some: those behind move together and keep their
positions, so from there on a slot is its position less the number of tokens that have left. Which tokens of
the zone stay is not booked, it may differ from head to head: no rewind leads to a position within it.

Where recurrent layers keep states, ``states`` says how far one can go back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from edgedec.core.errors import ContextFullError
from edgedec.memory.state_book import StateBook

_ROOT = -1


class PlannedPass(NamedTuple):
    """A pass that fits: its first slot, and a parent and a position for each of its tokens.

    Plain sequences, no arrays: passes are short.
    """

    start: int
    parents: Sequence[int]
    positions: Sequence[int]
    chain: bool


class CacheBook:
    """Slots that are taken, and the kind of pass that took them."""

    def __init__(
        self, capacity: int, *, window: int = 0, ring: int = 0, states: StateBook | None = None
    ) -> None:
        """``window``: tokens that some layers see, whose keys and values lie in rings of ``ring`` slots."""
        self.capacity = capacity
        self.states = states
        self._window = window
        self._ring = ring
        self.oldest = 0
        """The first slot whose keys and values all layers may still hold."""
        self.slots = 0
        """Slots taken."""
        self.evicted = range(0)
        """Positions of the zone from which tokens were evicted."""
        self._missing = 0
        self._last: PlannedPass | None = None

    @property
    def length(self) -> int:
        """Position of the next token: slots taken and tokens evicted, together."""
        return self.slots + self._missing

    def reachable(self, length: int) -> int:
        """Return the tokens that a rewind to ``length`` leaves: 0 if the next one would see a lost slot.

        States may have no more than a checkpoint with fewer tokens.
        """
        length = self.states.reachable(length) if self.states else length
        return length if self._sees_all(length) else 0

    def _sees_all(self, length: int) -> bool:
        return not self.oldest or length - self._window + 1 >= self.oldest

    def holds(self, length: int) -> bool:
        """Whether the first ``length`` tokens lie in the first slots, and the next one would see none lost.

        May be asked while another thread books passes. States are not asked for.
        """
        return self.in_order(length) and self._sees_all(length)

    def in_order(self, length: int) -> bool:
        """Whether the first ``length`` tokens lie in the first slots, whatever rings have lost."""
        last, zone = self._last, self.evicted
        if not 0 <= length <= self.length or (zone and length > zone.start):
            return False
        in_tree = length - last.start if last and not last.chain else 0
        return not last or in_tree <= 0 or _is_chain(last.parents[:in_tree])

    @property
    def settled(self) -> bool:
        """Whether the next pass may come."""
        return self._last is None or self._last.chain

    def plan(self, tokens: int, parents: Sequence[int] | None) -> PlannedPass:
        """Check a pass over ``tokens`` tokens and place it; ``append`` records it once it was computed.

        The slots that it overwrites in rings count as lost from now on, so a pass may fail midway.
        Raises ValueError when it is malformed or a tree waits to be settled, ContextFullError when it does
        not fit.
        """
        if tokens < 1:
            raise ValueError("a pass needs at least one token")
        if self._last and not self._last.chain:
            raise ValueError("settle the tree of the last pass (keep_path or rewind) before the next pass")
        if self.slots + tokens > self.capacity:
            self.check_room(tokens)
        next_one = self.slots + self._missing
        if parents is None:
            positions = range(next_one, next_one + tokens)
            planned = PlannedPass(self.slots, range(_ROOT, tokens - 1), positions, True)
        elif len(parents) == tokens:
            planned = PlannedPass(self.slots, tuple(parents), *_placed(parents, next_one))
        else:
            raise ValueError(f"{len(parents)} parents for {tokens} tokens")
        if self.states:
            self.states.check(tokens, chain=planned.chain)
        if self._ring:
            self.lose(self.slots + tokens - self._ring)
        return planned

    def check_room(self, tokens: int) -> None:
        """Raises ContextFullError unless ``tokens`` more fit."""
        if self.slots + tokens > self.capacity:
            raise ContextFullError(
                f"{tokens} more tokens do not fit: the context holds {self.capacity} and has {self.slots}",
                hint="shorten the prompt or use a larger context",
            )

    def append(self, done: PlannedPass) -> bool:
        """Record that ``done`` was computed; whether a checkpoint of states should be taken now."""
        self.fill(done)
        return self.states is not None and self.states.passed(done.start, len(done.parents), chain=done.chain)

    def fill(self, done: PlannedPass) -> None:
        """Record that the slots of ``done`` were filled otherwise."""
        self.slots = done.start + len(done.parents)
        self._last = done

    def lose(self, end: int) -> None:
        """Record that rings lack the slots before ``end``."""
        self.oldest = max(self.oldest, end)

    def rewind(self, length: int) -> None:
        """Free every slot from position ``reachable(length)`` on.

        A rewind to before the zone that tokens were evicted from forgets the zone. Raises ValueError when
        that is not possible, also for a position within the zone.
        """
        if not 0 <= length <= self.length or length in self.evicted[1:]:
            raise ValueError(
                f"cannot rewind to {length}: the cache holds {self.length} tokens{self._without}"
            )
        length = self.reachable(length)
        if length == 0:
            self.oldest = 0
        if length == self.length and self.settled:
            self._rewind_states(length)
            return
        slots = length if length <= self.evicted.start else length - self._missing
        kept = slots - self._last.start if self._last else 0
        if self._last and not self._last.chain and kept > 0 and not _is_chain(self._last.parents[:kept]):
            raise ValueError(f"cannot rewind to {length}, inside a tree: keep a path instead")
        self._rewind_states(length)
        if length <= self.evicted.start:
            self.evicted, self._missing = range(0), 0
        self.slots = slots
        self._last = None

    def _rewind_states(self, length: int) -> None:
        if self.states:
            self.states.rewind(length)

    def evict(self, first: int, end: int, kept: int = 0) -> None:
        """Keep ``kept`` of the slots [first, end) and free the others; the slots behind them move down.

        Raises ValueError for slots that are not taken or not settled, when none is freed, and for a second
        zone: once tokens were evicted, ``first`` is where they were, and [first, end) has all that stayed.
        """
        freed = end - first - kept
        if not self.settled or not 0 <= first <= end <= self.slots or kept < 0 or freed < 1:
            raise ValueError(
                f"cannot evict {freed} slots from {first}: {self.slots} are taken, or not settled"
            )
        if self._ring:
            raise ValueError("layers with a window would mistake the slots that are left for their window")
        if self.states:
            raise ValueError("the states of recurrent layers cannot forget a token")
        zone = self.evicted
        if zone and (first != zone.start or end + self._missing < zone.stop):
            raise ValueError(
                f"cannot evict slots {first} to {end - 1}: tokens were evicted from {zone.start}, and others"
                f" stayed up to {zone.stop - self._missing - 1}"
            )
        self.evicted = range(first, end + self._missing)
        self._missing += freed
        self.slots -= freed
        self._last = None

    @property
    def _without(self) -> str:
        zone = self.evicted
        return f", {self._missing} of {zone.start} to {zone.stop - 1} have left" if zone else ""

    def keep(self, nodes: Sequence[int]) -> tuple[list[int], list[int]]:
        """Settle the last pass to the path ``nodes``; returns slots (from, to) that the backend must copy.

        Read all "from" slots before writing any "to" slot. Raises ValueError unless ``nodes`` is a root path
        of the last pass.
        """
        if self._last is None:
            raise ValueError("there is no pass to keep a path of")
        start, parents = self._last.start, self._last.parents
        sources: list[int] = []
        targets: list[int] = []
        before = _ROOT
        for at, node in enumerate(nodes):
            if not 0 <= node < len(parents) or parents[node] != before:
                raise ValueError(f"nodes {list(nodes)} are not a root path of the last pass")
            if node != at:
                sources.append(start + node)
                targets.append(start + at)
            before = node
        self.slots = start + len(nodes)
        self._last = None
        return sources, targets


def _placed(parents: Sequence[int], start: int) -> tuple[list[int], bool]:
    """Positions in the sequence, and whether it is a chain. Raises ValueError."""
    positions: list[int] = []
    chain = True
    for at, parent in enumerate(parents):
        if not _ROOT <= parent < at:
            raise ValueError(f"parent {parent} of token {at}: it must be -1 or an earlier token of the pass")
        positions.append(start if parent == _ROOT else positions[parent] + 1)
        chain = chain and parent == at - 1
    return positions, chain


def _is_chain(parents: Sequence[int]) -> bool:
    return all(parent == at - 1 for at, parent in enumerate(parents))
