"""The slots of a KV cache on a GPU, in the layout of the CPU's cache: read, written, copied.

A head's slots lie together, [layer][key, value][kv head][capacity] rows. On the device rows are padded to
whole words, in a file they are not. Layers with a window come last, and their rows may have another size; in
a file they have only their newest slots, as in ``KvMemory``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from edgedec.backends.gpu.device import GpuDevice, Slice
from edgedec.backends.gpu.program import cache_row_bytes
from edgedec.core.cache_config import KV_FORMATS, KvType
from edgedec.core.cache_kinds import Keys
from edgedec.core.errors import BadFileError
from edgedec.core.forward import Sink, Source
from edgedec.core.model_spec import ModelSpec
from edgedec.memory import kv_row_bytes, ring_kept, ring_keys, slot_bytes, whole_keys

_OLDEST = 8
"""Bytes in which a file says which slot is the oldest of layers with a window."""


class _Layer:
    """The buffer of a layer: ``capacity`` slots of one kind."""

    def __init__(self, buffer: Any, keys: Keys, capacity: int, kv: KvType) -> None:
        self.buffer, self._capacity = buffer, capacity
        self.heads = 2 * keys.kv_heads
        self.row = kv_row_bytes(keys.head_dim, kv)
        self.padded = cache_row_bytes(keys.head_dim, kv)

    def part(self, head: int, first: int, end: int) -> Slice:
        """Slots of a head."""
        return Slice(self.buffer, (head * self._capacity + first) * self.padded, (end - first) * self.padded)


class GpuCache:
    """The buffers of ``layers``, each of ``capacity`` slots in the format ``kv``."""

    def __init__(
        self, device: GpuDevice, spec: ModelSpec, capacity: int, kv: KvType, layers: Sequence[Any]
    ) -> None:
        self._device, self._kv = device, kv
        self._whole, self._rings, self._kept = whole_keys(spec), ring_keys(spec), ring_kept(spec)
        kinds = [keys for keys in (self._whole, self._rings) if keys for _ in range(keys.layers)]
        self._layers = [
            _Layer(buffer, keys, capacity, kv) for buffer, keys in zip(layers, kinds, strict=True)
        ]

    @property
    def layout(self) -> str:
        """The text of ``KvMemory.layout``."""
        rings = f" {self._sizes(self._rings)}x{self._kept}" if self._rings else ""
        return f"{KV_FORMATS[self._kv]} {self._sizes(self._whole)}{rings}"

    def _sizes(self, keys: Keys) -> str:
        return f"{keys.layers}x2x{keys.kv_heads}x{kv_row_bytes(keys.head_dim, self._kv)}"

    def nbytes(self, slots: int) -> int:
        """Bytes of ``slots`` slots, as written."""
        size = slot_bytes(self._whole, self._kv) * slots
        if self._rings and slots:
            size += _OLDEST + slot_bytes(self._rings, self._kv) * min(slots, self._kept)
        return size

    def write(self, sink: Sink, slots: int, oldest: int) -> None:
        """Write the first ``slots`` slots, a layer at a time; see ``KvMemory.write``."""
        for layer in self._layers[: self._whole.layers]:
            for piece in self._read(layer, 0, slots):
                sink.write(memoryview(piece))
        if not self._rings or not slots:
            return
        first = max(slots - self._kept, 0)
        lost = max(oldest - first, 0)
        sink.write(memoryview((first + lost).to_bytes(_OLDEST, "little")))
        for layer in self._layers[self._whole.layers :]:
            for piece in self._read(layer, first + lost, slots):
                sink.write(memoryview(bytes(lost * layer.row)))
                sink.write(memoryview(piece))

    def read(self, source: Source, slots: int) -> int:
        """Fill the first ``slots`` slots and return the oldest that all layers have; see ``KvMemory.read``.

        Raises EOFError when ``source`` ends early, BadFileError when that slot cannot be the oldest.
        """
        for layer in self._layers[: self._whole.layers]:
            self._fill(layer, source, 0, slots)
        if not self._rings or not slots:
            return 0
        oldest = int.from_bytes(_taken(source, _OLDEST, slots), "little")
        first = max(slots - self._kept, 0)
        if not first <= oldest <= slots:
            raise BadFileError(f"a saved cache of {slots} tokens cannot begin with token {oldest}")
        for layer in self._layers[self._whole.layers :]:
            self._fill(layer, source, first, slots)
        return oldest

    def copy(self, source: GpuCache, slots: int) -> None:
        """Copy the first ``slots`` slots of another cache on the same device."""
        pairs = []
        for mine, other in zip(self._layers, source._layers, strict=True):
            for head in range(mine.heads):
                pairs.append((other.part(head, 0, slots), mine.part(head, 0, slots)))
        self._device.copy(pairs)

    def _read(self, layer: _Layer, first: int, end: int) -> Iterator[bytes]:
        """Read the rows of each head, without padding."""
        places = [layer.part(head, first, end) for head in range(layer.heads)]
        for piece in self._device.run([], places):
            yield _narrowed(piece, layer.padded, layer.row)

    def _fill(self, layer: _Layer, source: Source, first: int, end: int) -> None:
        for head in range(layer.heads):
            place = layer.part(head, first, end)
            rows = _taken(source, (end - first) * layer.row, end)
            self._device.write(layer.buffer, _widened(rows, layer.row, layer.padded), place.offset)


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
