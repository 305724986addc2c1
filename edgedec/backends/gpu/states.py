"""The states of recurrent layers on a GPU: checkpoints there, and files in the form of the CPU's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from edgedec.backends.gpu.build.recurrent import state_layers
from edgedec.backends.gpu.device import GpuDevice, Slice
from edgedec.backends.gpu.executor import Executor
from edgedec.backends.gpu.program import CHECKPOINT, STATE, TRAIL, WORD
from edgedec.backends.state_memory import KindMemory, StateMemory
from edgedec.backends.state_store import StateStore, tail_rows
from edgedec.core.cache_kinds import States
from edgedec.core.forward import Sink, Source
from edgedec.core.ledger import SLACK, Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import FloatArray
from edgedec.memory import state_bytes

_Copies = list[tuple[Slice, Slice]]


@dataclass(frozen=True, slots=True)
class _Layer:
    """The buffers of a layer. A checkpoint has the tail's rows, then the state."""

    kind: States
    trail: Slice
    state: Slice | None
    checkpoint: Slice | None

    def copies(self, rows: list[int], checkpoint: Slice) -> _Copies:
        """Pairs of the trail's ``rows`` and the state, and their places in a checkpoint."""
        size = self.kind.trail * WORD
        found = [
            (_part(self.trail, row * size, size), _part(checkpoint, place * size, size))
            for place, row in enumerate(rows)
        ]
        if self.state is not None:
            kept = _part(checkpoint, len(rows) * size, self.state.nbytes)
            found.append((self.state, kept))
        return found


class GpuStates(StateStore):
    """Trails and states of one sequence in the buffers of ``executor``.

    A rewind changes them when the next pass begins, so it cannot fail where the device is lost.
    """

    def __init__(self, executor: Executor, spec: ModelSpec, ledger: Ledger) -> None:
        super().__init__(spec.states)
        self._device: GpuDevice = executor.device
        self._ledger = ledger
        buffers = executor.program.buffers
        self._layers = [
            _Layer(
                kind,
                *(
                    executor.buffer(begin + name) if begin + name in buffers else None
                    for begin in (TRAIL, STATE, CHECKPOINT)
                ),  # type: ignore[arg-type]
            )
            for kind, name in state_layers(spec)
        ]
        self._due: Callable[[], None] | None = None

    def begin(self, applied: int) -> None:
        """See ``StateStore.begin``. Raises BackendError, DeviceLostError."""
        if self._due is not None:
            self._due()
            self._due = None

    def clear(self) -> None:
        """See ``StateStore.clear``. No pass reads rows before the first token's."""
        self._due = self._clear

    def restore(self, applied: int) -> None:
        """See ``StateStore.restore``."""
        self._due = lambda: self._device.copy([(to, at) for at, to in self._kept_places(applied)])

    def keep(self, applied: int) -> None:
        """See ``StateStore.keep``. Raises BackendError, DeviceLostError."""
        self._device.copy(list(self._kept_places(applied)))

    def copy(self, source: GpuStates) -> None:
        """See ``StateStore.copy``."""
        source.begin(0)
        self._due = None
        pairs = ((one, other) for one, other in zip(self._layers, source._layers, strict=True))
        self._device.copy(
            [
                (theirs, mine)
                for one, other in pairs
                for theirs, mine in ((other.trail, one.trail), (other.state, one.state))
                if theirs is not None and mine is not None
            ]
        )

    def copy_kept(self, source: GpuStates, applied: int) -> None:
        """See ``StateStore.copy_kept``."""
        self._due = None
        pairs: _Copies = []
        for one, other in zip(self._layers, source._layers, strict=True):
            if other.checkpoint is not None:
                placed = one.copies(tail_rows(one.kind, applied), other.checkpoint)
                pairs += [(to, at) for at, to in placed]
        self._device.copy(pairs)

    def write(self, sink: Sink, applied: int, slots: int, *, kept: bool) -> None:
        """See ``StateStore.write``. Raises BackendError, DeviceLostError."""
        self.begin(applied)
        with self._ledger.lease(SLACK, state_bytes(self.kinds)):
            host = StateMemory(self.kinds)
            for one, layer, buffers in self._on_host(host):
                self._fetch(one, layer, buffers)
                before = [row for row, slot in enumerate(range(applied - one.kind.tail, applied)) if slot < 0]
                one.kept_rows[layer, before] = 0
                one.trail[layer, [one.tail(applied)[row] for row in before]] = 0
            host.write(sink, applied, slots, kept=kept)

    def read(self, source: Source, slots: int, undone: int) -> int:
        """See ``StateStore.read``. Raises BackendError, DeviceLostError too."""
        with self._ledger.lease(SLACK, state_bytes(self.kinds)):
            host = StateMemory(self.kinds)
            applied = host.read(source, slots, undone)
            for one, layer, buffers in self._on_host(host):
                self._device.write(buffers.trail.buffer, one.trail[layer].tobytes())
                if buffers.state is not None:
                    self._device.write(buffers.state.buffer, one.state[layer].tobytes())
        self._due = None
        return applied

    def _clear(self) -> None:
        self._device.clear([one.state for one in self._layers if one.state is not None])

    def _kept_places(self, applied: int) -> Iterator[tuple[Slice, Slice]]:
        for one in self._layers:
            if one.checkpoint is not None:
                yield from one.copies(tail_rows(one.kind, applied), one.checkpoint)

    def _on_host(self, host: StateMemory) -> Iterator[tuple[KindMemory, int, _Layer]]:
        """Each layer with its arrays on the host."""
        places = ((one, layer) for one in host.all for layer in range(one.kind.layers))
        for (one, layer), buffers in zip(places, self._layers, strict=True):
            yield one, layer, buffers

    def _fetch(self, one: KindMemory, layer: int, buffers: _Layer) -> None:
        wanted = [part for part in (buffers.trail, buffers.state, buffers.checkpoint) if part is not None]
        found = [np.frombuffer(data, np.float32) for data in self._device.run([], wanted)]
        one.trail[layer] = found.pop(0).reshape(one.trail[layer].shape)
        if buffers.state is not None:
            one.state[layer] = found.pop(0)
        if buffers.checkpoint is not None:
            rows: FloatArray = one.kept_rows[layer]
            one.kept_rows[layer] = found[0][: rows.size].reshape(rows.shape)
            one.kept_state[layer] = found[0][rows.size :]


def _part(whole: Slice, offset: int, nbytes: int) -> Slice:
    return Slice(whole.buffer, whole.offset + offset, nbytes)
