"""Copies of rings at several places of a sequence, to which one can go back after rings have gone round.

A place is copied when a pass is about to overwrite slots that it needs: a conversation that fits into its
rings copies nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from edgedec.backends.onnx.kv_rings import KvRings
from edgedec.backends.state_snapshots import MOST_SNAPSHOTS, Snapshot, StateSnapshots
from edgedec.core.ledger import Ledger
from edgedec.memory import CacheBook

_MOST_BYTES = 1 << 30
"""Snapshots of one sequence, where no budget says less."""


class RingSnapshots:
    """Snapshots of the ``rings`` of one sequence with a ``book``; layers see ``window`` tokens."""

    def __init__(self, rings: KvRings, book: CacheBook, window: int, ledger: Ledger) -> None:
        self._rings, self._book, self._window = rings, book, window
        nbytes = rings.pages.slot_bytes * rings.kept
        self._all = StateSnapshots(nbytes, ledger, min(MOST_SNAPSHOTS, _MOST_BYTES // max(nbytes, 1)))
        self._places: set[int] = set()
        """Places that are to be copied before they are lost."""

    def expect(self, places: Iterable[int]) -> None:
        """Copy what these numbers of tokens need before it is lost, in the place of earlier wishes."""
        self._places = {at for at in places if at > 0 and self._all.at(at) is None}

    def before(self, length: int) -> int:
        """Return the most tokens, at most ``length``, that a snapshot leads back to; 0: none."""
        return max(
            (min(one.applied, length) for one in self._all.all() if self._reaches(one, length)), default=0
        )

    def at(self, length: int) -> Snapshot | None:
        """Return a snapshot that leads back to ``length`` tokens."""
        reaching = (one for one in self._all.all() if one.applied >= length and self._reaches(one, length))
        return min(reaching, key=lambda one: one.applied, default=None)

    def save(self, tokens: int) -> None:
        """Copy the expected places that a pass over ``tokens`` tokens would overwrite slots of."""
        if not self._places:
            return
        lost = self._book.slots + tokens - self._rings.pages.rows
        for place in sorted(self._places):
            first = max(place - self._rings.kept, 0)
            if first >= lost or place > self._book.slots:
                break
            self._places.discard(place)
            oldest = max(first, self._book.oldest)
            if self._book.holds(place) and (lease := self._all.lease(place)) is not None:
                self._all.add(Snapshot(place, (self._rings.taken(oldest, place),), lease, oldest))

    def recall(self, length: int) -> None:
        """Let rings and book have what the snapshot of ``length`` tokens has."""
        found = self.at(length)
        assert found is not None, "it was asked for"
        self._rings.put(found.arrays[0], found.oldest, length)
        self._book.oldest = found.oldest

    def forget(self, length: int) -> None:
        """Drop what has more than ``length`` tokens: the sequence goes on otherwise."""
        self._all.forget(length)
        self._places = {at for at in self._places if at <= length}

    def _reaches(self, one: Snapshot, length: int) -> bool:
        """Whether the token behind ``length`` tokens, or all of a shorter snapshot, sees no lost slot."""
        return not one.oldest or min(one.applied, length) - self._window + 1 >= one.oldest
