"""The recurrent states of one sequence: the memory, and the book of the tokens that it covers, in step."""

from __future__ import annotations

import threading

from edgedec.backends.state_snapshots import Snapshot, StateSnapshots
from edgedec.backends.state_store import StateStore
from edgedec.core.forward import Sink, Source
from edgedec.core.ledger import Ledger
from edgedec.memory import StateBook, most_undone

_UNKNOWN = 1 << 62


class KvStates:
    """``memory`` of one sequence. ``CacheBook`` changes ``book``; ``follow`` lets the memory go with it.

    A checkpoint is taken behind a long pass, and behind the first pass after a rewind: there a reply, or a
    draft, began, and may begin again.
    """

    def __init__(self, memory: StateStore, ledger: Ledger) -> None:
        self._memory = memory
        self.kept_bytes = memory.kept_bytes()
        """Bytes of a snapshot; 0: none are taken."""
        self.snapshots = StateSnapshots(self.kept_bytes, ledger)
        applies = any(kind.state for kind in memory.kinds)
        self.book = StateBook(most_undone(memory.kinds), applies=applies)
        self._covered = 0
        """Tokens that the states in memory cover."""
        self._due = False
        """Whether the next pass is the first one after a rewind."""

    @property
    def lock(self) -> threading.RLock:
        """See ``StateStore``."""
        return self._memory.lock

    def begin(self) -> None:
        """Tell the pass that comes how many tokens the states cover. Until ``done`` nobody knows."""
        self._memory.begin(self.book.applied)
        self._covered = _UNKNOWN

    def done(self, *, keep: bool) -> None:
        """Note that the pass was computed, and take a checkpoint if told so, or after a rewind."""
        if (keep or self._due) and self.book.applied > self.book.checkpoint:
            self._keep()
        self._covered, self._due = self.book.applied, False

    def _keep(self) -> None:
        self.book.checkpoint = 0  # until all of it is there
        self._memory.keep(self.book.applied)
        self.book.checkpoint = self.book.applied

    def snapshot(self) -> bool:
        """Keep a copy of the states, between two passes, where there is room for it; whether it was kept."""
        applied = self.book.applied
        if not self.kept_bytes or (lease := self.snapshots.lease(applied)) is None:
            return False
        if self.book.checkpoint != applied:
            self._keep()
        self.snapshots.add(Snapshot(applied, self._memory.taken(), lease))
        return True

    def recall(self, applied: int) -> None:
        """Go back to the snapshot of ``applied`` tokens."""
        found = self.snapshots.at(applied)
        assert found is not None, "it was asked for"
        self.take(found)

    def take(self, found: Snapshot) -> None:
        """Let the states be those of a snapshot."""
        self._covered, self.book.checkpoint = _UNKNOWN, 0
        self._memory.put(found.arrays)
        self._restored(found.applied)

    def read_snapshot(self, source: Source, applied: int) -> None:
        """Let the states be those of a snapshot in a file. Raises EOFError."""
        self._covered, self.book.checkpoint = _UNKNOWN, 0
        self._memory.read_kept(source, applied)
        self._restored(applied)

    def _restored(self, applied: int) -> None:
        self._memory.restore(applied)
        self.book.applied = self.book.checkpoint = self._covered = applied

    def follow(self) -> None:
        """Bring the states to those tokens that the book says they cover, after a rewind."""
        applied, self._due = self.book.applied, True
        if applied < self._covered:
            self._covered = _UNKNOWN
            if applied:
                self._memory.restore(applied)
            else:
                self._memory.clear()
            self._covered = applied

    def copy(self, source: KvStates, length: int) -> int:
        """Copy the states of ``source`` for its first ``length`` tokens; returns the tokens that it has.

        Waits for a pass of ``source`` to end.
        """
        with source.lock:
            kept = source.snapshots.at(source.snapshots.before(length))
            length, applied = source.book.reachable(length), source.book.applied
            if kept and kept.applied > length:
                self.take(kept)
                return kept.applied
            if not length:
                return 0
            self._covered = _UNKNOWN
            if length < applied:
                applied = length
                self._memory.copy_kept(source._memory, length)
            else:
                self._memory.copy(source._memory)
        self._filled(applied)
        return length

    def write(self, sink: Sink, length: int) -> None:
        """Write the states of the first ``length`` tokens, which are reachable."""
        applied = min(self.book.applied, length)
        found = self.snapshots.at(length)
        if found and self.book.reachable(length) < length:  # a file has a checkpoint: let it be this one
            self.book.checkpoint = 0
            self._memory.put(found.arrays)
            self.book.checkpoint = length
        self._memory.write(sink, applied, length, kept=applied < self.book.applied)

    def read(self, source: Source, length: int) -> None:
        """Take the states of ``length`` tokens from a file. Raises EOFError and BadFileError."""
        self._covered = _UNKNOWN
        self._filled(self._memory.read(source, length, self.book.undone))

    def _filled(self, applied: int) -> None:
        self.book.applied = self._covered = applied
        self._keep()
