"""Several conversations on one GPU: each with a KV cache of its own, whose passes run one after another."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from edgedec.core.errors import BackendError
from edgedec.core.forward import Forward


class Turn:
    """A lock that threads get in the order in which they ask for it, so that a prompt holds up nobody."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._taken = False
        self._closed = False
        self._waiting: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        """Wait for the turn. Raises BackendError after ``close``."""
        with self._mutex:
            mine = None
            if self._taken:
                mine = threading.Lock()
                mine.acquire()
                self._waiting.append(mine)
            self._taken = True
        if mine is not None:
            try:
                mine.acquire()
            except BaseException:  # Ctrl-C
                self._leave(mine)
                raise
        if self._closed:
            self._next()
            raise BackendError("the batch was closed")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._next()

    def close(self) -> None:
        """Wait for the turn that is now; whoever asks for it from now on, or waits, gets a BackendError."""
        if not self._closed:
            with self:
                self._closed = True

    def _next(self) -> None:
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False

    def _leave(self, mine: threading.Lock) -> None:
        with self._mutex:
            if mine in self._waiting:
                self._waiting.remove(mine)
                return
        self._next()


class SequencesInTurn:
    """The ``SequenceBatch`` over ``forwards``, all of whose calls take ``turn``."""

    def __init__(self, forwards: tuple[Forward, ...], turn: Turn) -> None:
        self._forwards, self._turn = forwards, turn
        self._mutex = threading.Lock()
        self._active: set[int] = set()

    @property
    def forwards(self) -> tuple[Forward, ...]:
        """See ``SequenceBatch.forwards``."""
        return self._forwards

    @contextmanager
    def reply(self, sequence: int, *, streams: bool = True) -> Iterator[None]:
        """See ``SequenceBatch.reply``. No pass waits for another's request."""
        with self._mutex:
            if sequence in self._active:
                raise ValueError(f"sequence {sequence} is in a reply already")
            self._active.add(sequence)
        try:
            yield
        finally:
            with self._mutex:
                self._active.discard(sequence)

    def close(self) -> None:
        """See ``SequenceBatch.close``."""
        self._turn.close()
