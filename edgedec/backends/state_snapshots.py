"""Copies of states, or of rings, at several places of a sequence, to which one can go back later.

A changed last message, or another one behind the same system message, so finds a state shortly before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from edgedec.core.errors import MemoryBudgetError
from edgedec.core.forward import Sink
from edgedec.core.ledger import Lease, Ledger
from edgedec.core.quick_dataclass import dataclass

SNAPSHOTS = "snapshots"
"""Share of a memory plan."""
MOST_SNAPSHOTS = 4
"""Snapshots of one sequence: behind the system message, before the last messages, behind the prompt."""
_NEAR_TOKENS = 48
"""Tokens that are read as quickly as a snapshot is kept: nearer ones replace each other."""


@dataclass(eq=False, slots=True)
class Snapshot:
    """What covers the first ``applied`` tokens: rows of trails and states of each kind, or slots of rings."""

    applied: int
    arrays: Sequence[NDArray[Any]]
    lease: Lease
    oldest: int = 0
    """The first slot of rings that is there."""

    def write(self, sink: Sink) -> None:
        """Write all arrays."""
        for array in self.arrays:
            sink.write(array.reshape(-1).view("u1").data)


class StateSnapshots:
    """The snapshots of one sequence, by the tokens that they cover. Others may look for one meanwhile."""

    def __init__(self, nbytes: int, ledger: Ledger, most: int = MOST_SNAPSHOTS) -> None:
        """Keep at most ``most`` of ``nbytes`` bytes each."""
        self._nbytes, self._ledger, self._most = nbytes, ledger, most
        self._found: dict[int, Snapshot] = {}

    def all(self) -> tuple[Snapshot, ...]:
        """All that are kept."""
        return tuple(self._found.values())

    def before(self, length: int) -> int:
        """Return the most tokens, at most ``length``, that a snapshot covers; 0: none."""
        return max((at for at in tuple(self._found) if at <= length), default=0)

    def at(self, applied: int) -> Snapshot | None:
        """Return the snapshot of so many tokens."""
        return self._found.get(applied)

    def lease(self, applied: int) -> Lease | None:
        """Make room for a snapshot of ``applied`` tokens; None where there is no need for it, or no room."""
        if applied <= 0 or applied in self._found or not self._most:
            return None
        for at in sorted(self._found)[1:]:  # the first one is that of the system message
            if applied - _NEAR_TOKENS < at < applied:
                del self._found[at]
        while len(self._found) >= self._most or (self._lacks_room() and self._found):
            del self._found[self._least_missed(applied)]
        if self._lacks_room():
            return None
        lease = self._ledger.lease(SNAPSHOTS, self._nbytes)
        try:
            lease.take()
        except MemoryBudgetError:  # another sequence took the room just now
            return None
        return lease

    def add(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, for which there is a lease."""
        self._found[snapshot.applied] = snapshot

    def forget(self, length: int) -> None:
        """Drop the snapshots of more than ``length`` tokens: the sequence goes on otherwise."""
        for at in [at for at in self._found if at > length]:
            del self._found[at]

    def _lacks_room(self) -> bool:
        room = self._ledger.room(SNAPSHOTS)
        return room is not None and room < self._nbytes

    def _least_missed(self, newest: int) -> int:
        """Return the snapshot without which the fewest tokens more would be read again."""
        places = [0, *sorted(self._found), newest]
        around = zip(places, places[1:], places[2:], strict=False)
        gaps = {here: after - before for before, here, after in around}
        return min(gaps, key=lambda at: (gaps[at], at))
