"""The memory of recurrent layers: trails of the newest tokens, states, and a checkpoint of them."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.backends.onnx.kv_rings import fill
from edgedec.backends.state_store import APPLIED_BYTES, StateStore, tail_rows
from edgedec.core.cache_kinds import TRAIL_SLOTS, States
from edgedec.core.errors import BadFileError
from edgedec.core.forward import Sink, Source
from edgedec.core.rows import FloatArray


class KindMemory:
    """The arrays of one kind, for ``sequences`` sequences. A checkpoint has the tail's rows and the state."""

    def __init__(self, kind: States, sequences: int) -> None:
        self.kind = kind
        self.trail: FloatArray = np.zeros((kind.layers, sequences * TRAIL_SLOTS, kind.trail), np.float32)
        self.state: FloatArray = np.zeros((kind.layers, sequences, kind.state), np.float32)
        self.kept_rows: FloatArray = np.zeros((kind.layers, sequences * kind.tail, kind.trail), np.float32)
        self.kept_state: FloatArray = np.zeros_like(self.state)

    @property
    def inputs(self) -> dict[str, FloatArray]:
        """Inputs of the graph."""
        name = self.kind.name
        return {f"{name}_trail": self.trail} | ({f"{name}_state": self.state} if self.kind.state else {})

    @property
    def nbytes(self) -> int:
        arrays = (self.trail, self.state, self.kept_rows, self.kept_state)
        return sum(array.nbytes for array in arrays)

    def part(self, number: int, count: int) -> KindMemory:
        mine = copy(self)
        mine.trail, mine.state, mine.kept_rows, mine.kept_state = (
            _part(array, number, count) for array in (self.trail, self.state, self.kept_rows, self.kept_state)
        )
        return mine

    def tail(self, applied: int) -> list[int]:
        """See ``tail_rows``."""
        return tail_rows(self.kind, applied)


class StateMemory(StateStore):
    """Trails and states of ``kinds`` for a number of sequences.

    ``applied`` says for each sequence how many tokens its states cover.
    """

    def __init__(self, kinds: Sequence[States], sequences: int = 1) -> None:
        super().__init__(kinds)
        self.applied: NDArray[np.int64] = np.zeros(sequences, np.int64)
        self.all = [KindMemory(kind, sequences) for kind in kinds]

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Inputs of the graph."""
        found: dict[str, NDArray[Any]] = {"applied": self.applied}
        for one in self.all:
            found |= one.inputs
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(one.nbytes for one in self.all)

    def part(self, number: int, count: int) -> StateMemory:
        """The states of sequence ``number`` of ``count``."""
        mine = copy(self)
        mine.applied = self.applied[number : number + 1]
        mine.all = [one.part(number, count) for one in self.all]
        return mine

    def move(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy rows of the trail of slots ``sources`` to ``targets``; all are read before any is written."""
        rows, places = ([slot % TRAIL_SLOTS for slot in slots] for slots in (sources, targets))
        for one in self.all:
            one.trail[:, places] = one.trail[:, rows]

    def move_bytes(self, slots: int) -> int:
        """Bytes that ``move`` takes for a moment for so many slots."""
        return max((4 * slots * one.kind.layers * one.kind.trail for one in self.all), default=0)

    def begin(self, applied: int) -> None:
        """See ``StateStore.begin``."""
        self.applied[0] = applied

    def clear(self) -> None:
        """See ``StateStore.clear``. Rows before the first one are zeros."""
        for one in self.all:
            one.trail[:] = 0
            one.state[:] = 0

    def keep(self, applied: int) -> None:
        """See ``StateStore.keep``."""
        for one in self.all:
            one.kept_state[:] = one.state
            one.kept_rows[:] = one.trail[:, one.tail(applied)]

    def restore(self, applied: int) -> None:
        """See ``StateStore.restore``."""
        for one in self.all:
            one.state[:] = one.kept_state
            one.trail[:, one.tail(applied)] = one.kept_rows

    def kept_bytes(self) -> int:
        """See ``StateStore.kept_bytes``."""
        return sum(array.nbytes for one in self.all for array in (one.kept_rows, one.kept_state))

    def taken(self) -> list[FloatArray]:
        """See ``StateStore.taken``."""
        return [array.copy() for one in self.all for array in (one.kept_rows, one.kept_state)]

    def put(self, arrays: Sequence[FloatArray]) -> None:
        """See ``StateStore.put``."""
        places = [array for one in self.all for array in (one.kept_rows, one.kept_state)]
        for place, array in zip(places, arrays, strict=True):
            place[:] = array

    def read_kept(self, source: Source, applied: int) -> None:
        """See ``StateStore.read_kept``."""
        for array in (array for one in self.all for array in (one.kept_rows, one.kept_state)):
            fill(source, [_bytes_of(layer) for layer in array], applied)

    def copy(self, source: StateMemory) -> None:
        """See ``StateStore.copy``."""
        for one, other in zip(self.all, source.all, strict=True):
            one.trail[:] = other.trail
            one.state[:] = other.state

    def copy_kept(self, source: StateMemory, applied: int) -> None:
        """See ``StateStore.copy_kept``."""
        for one, other in zip(self.all, source.all, strict=True):
            one.state[:] = other.kept_state
            one.trail[:, one.tail(applied)] = other.kept_rows

    def write(self, sink: Sink, applied: int, slots: int, *, kept: bool) -> None:
        """See ``StateStore.write``. Rows that nothing reads are written as zeros."""
        sink.write(memoryview(applied.to_bytes(APPLIED_BYTES, "little")))
        behind = [slot % TRAIL_SLOTS for slot in range(applied, slots)]
        for one in self.all:
            tail = one.tail(applied)
            for layer in range(one.kind.layers):
                rows = np.zeros_like(one.trail[layer])
                rows[behind] = one.trail[layer, behind]
                rows[tail] = one.kept_rows[layer] if kept else one.trail[layer, tail]
                for array in (rows, (one.kept_state if kept else one.state)[layer]):
                    sink.write(_bytes_of(array))

    def read(self, source: Source, slots: int, undone: int) -> int:
        """See ``StateStore.read``."""
        said = bytearray(APPLIED_BYTES)
        fill(source, [memoryview(said)], slots)
        applied = int.from_bytes(said, "little")
        if not max(slots - undone, 0) <= applied <= slots:
            raise BadFileError(f"saved states of {slots} tokens cannot cover {applied}")
        for one in self.all:
            for layer in range(one.kind.layers):
                fill(source, [_bytes_of(one.trail[layer]), _bytes_of(one.state[layer])], slots)
        return applied


def _part(array: FloatArray, number: int, count: int) -> FloatArray:
    each = array.shape[1] // count
    return array[:, number * each : (number + 1) * each]


def _bytes_of(array: FloatArray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
