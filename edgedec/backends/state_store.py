"""Places for the states of recurrent layers, on the host or on a device, and the form of their file."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from edgedec.core.cache_kinds import TRAIL_SLOTS, States
from edgedec.core.forward import Sink, Source
from edgedec.core.rows import FloatArray

APPLIED_BYTES = 8
"""Bytes in which a file says how many tokens its states cover."""


class StateStore(ABC):
    """Trails of the newest tokens, states, and a checkpoint of them, of ``kinds``.

    ``lock`` is held during passes, which change states in place, and by those who copy states meanwhile.
    """

    def __init__(self, kinds: Sequence[States]) -> None:
        self.kinds = tuple(kinds)
        self.lock = threading.RLock()

    @abstractmethod
    def begin(self, applied: int) -> None:
        """Tell the pass that comes how many tokens the states cover."""

    @abstractmethod
    def clear(self) -> None:
        """Let the states cover no token."""

    @abstractmethod
    def keep(self, applied: int) -> None:
        """Take the checkpoint of states that cover ``applied`` tokens."""

    @abstractmethod
    def restore(self, applied: int) -> None:
        """Go back to the checkpoint, which covers ``applied`` tokens."""

    def kept_bytes(self) -> int:
        """Bytes of a copy that ``taken`` makes; 0 where it makes none."""
        return 0

    def taken(self) -> list[FloatArray]:
        """Return a copy of the checkpoint: rows of the trail and the state, of each kind."""
        raise NotImplementedError

    def put(self, arrays: Sequence[FloatArray]) -> None:
        """Make such a copy the checkpoint."""
        raise NotImplementedError

    def read_kept(self, source: Source, applied: int) -> None:
        """Make a copy in a file the checkpoint, which covers ``applied`` tokens. Raises EOFError."""
        raise NotImplementedError

    @abstractmethod
    def copy(self, source: Any) -> None:
        """Copy trails and states of another sequence of the same model and class."""

    @abstractmethod
    def copy_kept(self, source: Any, applied: int) -> None:
        """Copy the checkpoint of another sequence, which covers ``applied`` tokens."""

    @abstractmethod
    def write(self, sink: Sink, applied: int, slots: int, *, kept: bool) -> None:
        """Write states that cover ``applied`` tokens, and the rows of the trail up to ``slots``.

        They are those of the checkpoint if ``kept``.
        """

    @abstractmethod
    def read(self, source: Source, slots: int, undone: int) -> int:
        """Fill trail and states from a file of ``slots`` tokens, and return how many the states cover.

        Raises EOFError when ``source`` ends early, BadFileError when they cannot cover so many.
        """


def states_layout(kinds: Sequence[States]) -> str:
    """Name, then layers x numbers of a trail's row x numbers of a state, of each kind."""
    return "".join(f" {kind.name} {kind.layers}x{kind.trail}x{kind.state}" for kind in kinds)


def states_file_bytes(kinds: Sequence[States]) -> int:
    """Bytes of one sequence, as written; none without states."""
    sizes = [4 * kind.layers * (TRAIL_SLOTS * kind.trail + kind.state) for kind in kinds]
    return APPLIED_BYTES + sum(sizes) if sizes else 0


def snapshot_bytes(kinds: Sequence[States]) -> int:
    """Bytes of a copy of one sequence's checkpoint."""
    return sum(4 * kind.layers * (kind.tail * kind.trail + kind.state) for kind in kinds)


def tail_rows(kind: States, applied: int) -> list[int]:
    """Return the rows of the trail that the token behind the first ``applied`` reads."""
    return [slot % TRAIL_SLOTS for slot in range(applied - kind.tail, applied)]
