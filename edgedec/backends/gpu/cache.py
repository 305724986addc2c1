"""The slots of a KV cache on a GPU, in the layout of the CPU's cache: read, written, copied.

A head's slots lie together, [layer][key, value][kv head][capacity] rows. On the device rows are padded to
whole words, in a file they are not. Layers with a window come last; in a file they have only their newest
slots, as in ``KvMemory``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from edgedec.backends.gpu.device import GpuDevice, Slice
from edgedec.backends.gpu.program import cache_row_bytes
from edgedec.core.cache_config import KvType
from edgedec.core.errors import BadFileError
from edgedec.core.forward import Sink, Source
from edgedec.core.model_spec import ModelSpec
from edgedec.memory import kv_row_bytes, ring_kept

_OLDEST = 8
"""Bytes in which a file says which slot is the oldest of layers with a window."""


class GpuCache:
    """The buffers of ``layers``, each of ``capacity`` slots in the format ``kv``."""

    def __init__(
        self, device: GpuDevice, spec: ModelSpec, capacity: int, kv: KvType, layers: Sequence[Any]
    ) -> None:
        self._device, self._spec, self.capacity = device, spec, capacity
        self._kv, self._layers = kv, layers
        self._row = kv_row_bytes(spec.head_dim, kv)
        self._padded = cache_row_bytes(spec.head_dim, kv)
        self._heads = 2 * spec.n_kv_heads
        self._whole = spec.n_layers - spec.n_window_layers
        self._kept = ring_kept(spec)

    @property
    def layout(self) -> str:
        """The text of ``KvMemory.layout``."""
        rest = f"2x{self._spec.n_kv_heads}x{self._row}"
        rings = f" {self._spec.n_window_layers}x{rest}x{self._kept}" if self._spec.n_window_layers else ""
        return f"{self._kv} {self._whole}x{rest}{rings}"

    def nbytes(self, slots: int) -> int:
        """Bytes of ``slots`` slots, as written."""
        size = self._row * self._heads * self._whole * slots
        if self._spec.n_window_layers and slots:
            newest = min(slots, self._kept)
            size += _OLDEST + self._row * self._heads * self._spec.n_window_layers * newest
        return size

    def write(self, sink: Sink, slots: int, oldest: int) -> None:
        """Write the first ``slots`` slots, a layer at a time; see ``KvMemory.write``."""
        for layer in self._layers[: self._whole]:
            for piece in self._read(layer, 0, slots):
                sink.write(memoryview(piece))
        if not self._spec.n_window_layers or not slots:
            return
        first = max(slots - self._kept, 0)
        lost = max(oldest - first, 0)
        nothing = memoryview(bytes(lost * self._row))
        sink.write(memoryview((first + lost).to_bytes(_OLDEST, "little")))
        for layer in self._layers[self._whole :]:
            for piece in self._read(layer, first + lost, slots):
                sink.write(nothing)
                sink.write(memoryview(piece))

    def read(self, source: Source, slots: int) -> int:
        """Fill the first ``slots`` slots and return the oldest that all layers have; see ``KvMemory.read``.

        Raises EOFError when ``source`` ends early, BadFileError when that slot cannot be the oldest.
        """
        for layer in self._layers[: self._whole]:
            self._fill(layer, source, 0, slots)
        if not self._spec.n_window_layers or not slots:
            return 0
        oldest = int.from_bytes(_taken(source, _OLDEST, slots), "little")
        first = max(slots - self._kept, 0)
        if not first <= oldest <= slots:
            raise BadFileError(f"a saved cache of {slots} tokens cannot begin with token {oldest}")
        for layer in self._layers[self._whole :]:
            self._fill(layer, source, first, slots)
        return oldest

    def copy(self, source: GpuCache, slots: int) -> None:
        """Copy the first ``slots`` slots of another cache on the same device."""
        pairs = []
        for mine, other in zip(self._layers, source._layers, strict=True):
            for head in range(self._heads):
                pairs.append((source._slice(other, head, 0, slots), self._slice(mine, head, 0, slots)))
        self._device.copy(pairs)

    def _slice(self, layer: Any, head: int, first: int, end: int) -> Slice:
        return Slice(layer, (head * self.capacity + first) * self._padded, (end - first) * self._padded)

    def _read(self, layer: Any, first: int, end: int) -> Iterator[bytes]:
        """Read the rows of each head, without padding."""
        places = [self._slice(layer, head, first, end) for head in range(self._heads)]
        for piece in self._device.run([], places):
            yield _narrowed(piece, self._padded, self._row)

    def _fill(self, layer: Any, source: Source, first: int, end: int) -> None:
        for head in range(self._heads):
            place = self._slice(layer, head, first, end)
            rows = _taken(source, (end - first) * self._row, end)
            self._device.write(layer, _widened(rows, self._row, self._padded), place.offset)


def _narrowed(data: bytes, padded: int, row: int) -> bytes:
    """Return the first ``row`` of every ``padded`` bytes."""
    if padded == row or not data:
        return data
    return np.frombuffer(data, np.uint8).reshape(-1, padded)[:, :row].tobytes()


def _widened(data: bytearray, row: int, padded: int) -> bytes | bytearray:
    """Return every ``row`` bytes with zeros behind them: ``padded`` bytes."""
    if padded == row or not data:
        return data
    rows = np.frombuffer(data, np.uint8).reshape(-1, row)
    return np.pad(rows, ((0, 0), (0, padded - row))).tobytes()


def _taken(source: Source, nbytes: int, slots: int) -> bytearray:
    data = bytearray(nbytes)
    if source.readinto(memoryview(data)) != nbytes:
        raise EOFError(f"the slots of {slots} tokens are not all there")
    return data
