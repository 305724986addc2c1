"""The recurrent states of one sequence: the memory, and the book of the tokens that it covers, in step."""

from __future__ import annotations

import threading

from edgedec.backends.state_store import StateStore
from edgedec.core.forward import Sink, Source
from edgedec.memory import StateBook, most_undone

_UNKNOWN = 1 << 62


class KvStates:
    """``memory`` of one sequence. ``CacheBook`` changes ``book``; ``follow`` lets the memory go with it.

    A checkpoint is taken behind a long pass, and behind the first pass after a rewind: there a reply, or a
    draft, began, and may begin again.
    """

    def __init__(self, memory: StateStore) -> None:
        self._memory = memory
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
            length, applied = source.book.reachable(length), source.book.applied
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
        self._memory.write(sink, applied, length, kept=applied < self.book.applied)

    def read(self, source: Source, length: int) -> None:
        """Take the states of ``length`` tokens from a file. Raises EOFError and BadFileError."""
        self._covered = _UNKNOWN
        self._filled(self._memory.read(source, length, self.book.undone))

    def _filled(self, applied: int) -> None:
        self.book.applied = self._covered = applied
        self._keep()
