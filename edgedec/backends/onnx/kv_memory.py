"""The memory of a KV cache: keys and values of all tokens, rings of the newest ones, and recurrent states."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.backends.onnx.kv_pages import KvPages
from edgedec.backends.onnx.kv_rings import KvRings, fill
from edgedec.backends.state_memory import StateMemory
from edgedec.backends.state_store import states_file_bytes, states_layout
from edgedec.core.cache_config import KV_FORMATS
from edgedec.core.cache_kinds import Keys
from edgedec.core.errors import BackendError, Remedy
from edgedec.core.forward import Sink, Source
from edgedec.core.ledger import SLACK, Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.memory import KvType, kv_bytes, kv_row_bytes, ring_kept, ring_keys, whole_keys
from edgedec.system.allocator import GIVES_BACK

_WORTHWHILE_BYTES = 1 << 20
_WORTHWHILE_SLOTS = 64
"""Slots worth releasing. Rejected drafts free fewer: a page or two per head, which the next pass rewrites."""


class KvMemory:
    """Keys and values of ``capacity`` tokens, and of layers with a window of the ``ring`` newest (0: of all).

    ``states``: what recurrent layers keep of ``sequences`` sequences; None without such layers.

    ``arrays`` has them by the names of the graph's inputs, see ``KvPages``. A row is head_dim fp16 numbers,
    or, with ``kv`` "int8", head_dim bytes and their scales (see ``kv_row_bytes``). Raises BackendError when
    the address space cannot be had. The bytes are leased from ``ledger`` by ``use``.
    """

    def __init__(
        self,
        spec: ModelSpec,
        capacity: int,
        kv: KvType = "fp16",
        ring: int = 0,
        ledger: Ledger | None = None,
        sequences: int = 1,
    ) -> None:
        rings = ring_keys(spec)
        try:
            self._whole = _pages(whole_keys(spec), capacity, kv)
            self._rings = KvRings(_pages(rings, ring or capacity, kv), ring_kept(spec)) if rings else None
            self.states = StateMemory(spec.states, sequences) if spec.states else None
        except (OSError, OverflowError, ValueError, MemoryError) as error:
            size = kv_bytes(spec, capacity, kv, ring)
            message = f"no memory for a context of {capacity} tokens ({size >> 20} MiB)"
            raise BackendError(
                message, hint="use a smaller context", remedy=Remedy("shorter_context")
            ) from error
        self._borrowed: tuple[KvPages, int] | None = None
        """Where the first slots lie if not here, and how many."""
        self._kv = kv
        self.ledger: Ledger = ledger or Ledger()
        self._lease = self.ledger.lease("kv_cache", self.reserved)
        if self.states:
            self.ledger.hold(self.states.applied, "state", self.states.nbytes)

    def use(self) -> None:
        """Take the lease; call it before slots are written. Raises MemoryBudgetError."""
        self._lease.take()

    @property
    def _parts(self) -> list[KvPages]:
        return [self._whole, self._rings.pages] if self._rings else [self._whole]

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Inputs of the graph."""
        keys = zip(("kv_cache", "kv_window"), (part.array for part in self._parts), strict=False)
        return {**dict(keys), **(self.states.arrays if self.states else {})}

    @property
    def capacity(self) -> int:
        """Tokens that the memory holds."""
        return self._whole.rows

    @property
    def rings(self) -> KvRings | None:
        """The rings, where layers have a window."""
        return self._rings

    @property
    def ring(self) -> int:
        """Slots of the rings; 0 without layers with a window."""
        return self._rings.pages.rows if self._rings else 0

    @property
    def reserved(self) -> int:
        """Bytes of all slots of keys and values, written or not."""
        return sum(part.array.nbytes for part in self._parts)

    def part(self, number: int, count: int) -> KvMemory:
        """The slots of sequence ``number`` of ``count`` that share the memory evenly."""
        mine = copy(self)
        mine._whole = self._whole.part(number, count)
        mine._rings = self._rings and self._rings.part(number, count)
        mine.states = self.states and self.states.part(number, count)
        mine._lease = self.ledger.lease("kv_cache", mine.reserved)
        return mine

    def move(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy slots ``sources`` to ``targets`` in every layer; all are read before any is written."""
        if not sources:
            return
        for part in self._parts:
            with self.ledger.lease(SLACK, part.slot_bytes * len(sources)):
                part.move(sources, targets)
        if self.states:
            with self.ledger.lease(SLACK, self.states.move_bytes(len(sources))):
                self.states.move(sources, targets)

    def alike(self, other: KvMemory) -> bool:
        """Whether slots of ``other`` can be copied to the same slots here."""
        return (self.layout, self.ring) == (other.layout, other.ring)

    def copy_rings(self, source: KvMemory, oldest: int, end: int) -> None:
        """Copy the newest of the first ``end`` slots of rings, from ``oldest`` on."""
        if self._rings and source._rings:
            self._rings.copy(source._rings, oldest, end)

    def copy_slots(self, source: KvMemory, first: int, end: int) -> None:
        """Copy the slots [first, end) of ``source`` without rings."""
        for pages, start, stop in source._places(first, end):
            self._whole.copy(pages, start, stop)

    @property
    def borrowed(self) -> int:
        """The first slots, which lie in another memory."""
        return self._borrowed[1] if self._borrowed else 0

    def borrow(self, source: KvMemory | None, slots: int) -> None:
        """Let the first ``slots`` slots be those of ``source``, which owns them; None: lie here."""
        self._borrowed = (source._whole, slots) if source else None

    def _places(self, first: int, end: int) -> list[tuple[KvPages, int, int]]:
        """Where the slots [first, end) lie: pages, the first one and the last one there, ascending."""
        pages, lent = self._borrowed or (self._whole, 0)
        middle = min(max(first, lent), end)
        parts = ((pages, first, middle), (self._whole, middle, end))
        return [one for one in parts if one[1] < one[2]]

    def select(self, first: int, end: int, kept: NDArray[np.intp], slots: int) -> None:
        """Keep only ``kept``, [layers, kv heads, n], of the slots [first, end); not for rings.

        They and the slots behind, up to ``slots``, move down to ``first`` in place.
        """
        self._whole.select(first, end, kept, slots)

    def release(self, length: int, reached: int) -> bool:
        """Return the pages behind the first ``length`` slots to the operating system; whether it was done.

        It is not done for a few pages, counted up to slot ``reached``, unless ``length`` is 0, nor where the
        system takes none. The contents of returned slots are undefined.
        """
        slots = reached - length
        freed = sum(max(min(reached, part.rows) - length, 0) * part.slot_bytes for part in self._parts)
        few = slots <= _WORTHWHILE_SLOTS or freed < _WORTHWHILE_BYTES
        if not slots or (few and length) or not GIVES_BACK:
            return False
        for part in self._parts:
            part.give_back(length)
        if not length:
            self._lease.release()
        return True

    @property
    def layout(self) -> str:
        """Format, then layers x 2 (keys and values) x heads x bytes of a row: ``fp16 30x2x3x128``.

        Rings follow, with the most slots that are written: ``fp16 3x2x1x512 15x2x1x512x768``. So do states:
        ``fp16 6x2x2x512 delta 18x6176x262144``.
        """
        sizes = [(*part.array.shape[:3], part.array.shape[4] * 2) for part in self._parts]
        texts = ["x".join(map(str, size)) for size in sizes]
        keys = f"{KV_FORMATS[self._kv]} {' '.join(texts)}" + (f"x{self._rings.kept}" if self._rings else "")
        return keys + (states_layout(self.states.kinds) if self.states else "")

    def nbytes(self, slots: int) -> int:
        """Bytes of ``slots`` slots, as written."""
        states = states_file_bytes(self.states.kinds) if self.states and slots else 0
        return self.page_bytes(slots) + self.ring_bytes(slots) + states

    def page_bytes(self, slots: int) -> int:
        """Bytes of ``slots`` slots without rings, as written."""
        return self._whole.slot_bytes * slots

    def ring_bytes(self, slots: int) -> int:
        """Bytes of the rings behind ``slots`` slots, as written."""
        return self._rings.nbytes(slots) if self._rings else 0

    def write(self, sink: Sink, slots: int, oldest: int = 0) -> None:
        """Write keys and values of the first ``slots`` slots without a copy; of rings the newest ones.

        Slots of rings before ``oldest`` are lost and written as zeros.
        """
        self.write_page(sink, 0, slots)
        self.write_rings(sink, slots, oldest)

    def write_page(self, sink: Sink, first: int, end: int) -> None:
        """Write the slots [first, end) without a copy, and without rings."""
        places = [pages.heads(start, stop) for pages, start, stop in self._places(first, end)]
        for parts in zip(*places, strict=True):
            for piece in (one for pieces in parts for one in pieces):
                sink.write(piece)

    def write_rings(self, sink: Sink, slots: int, oldest: int) -> None:
        """Write the rings behind ``slots`` slots; see ``write``."""
        if self._rings and slots:
            self._rings.write(sink, slots, oldest)

    def write_copied_rings(self, sink: Sink, slots: int, copied: NDArray[np.float16], oldest: int) -> None:
        """Write the same from a copy of rings, whose first slot is ``oldest``."""
        if self._rings and slots:
            self._rings.write_copy(sink, slots, copied, oldest)

    def read(self, source: Source, slots: int) -> int:
        """Fill keys and values of the first ``slots`` slots, and return the oldest that rings have.

        Raises EOFError when ``source`` ends early, BadFileError when that slot cannot be the oldest.
        """
        self.read_page(source, 0, slots)
        return self.read_rings(source, slots)

    def read_page(self, source: Source, first: int, end: int) -> None:
        """Fill the slots [first, end), without rings. Raises EOFError."""
        for pieces in self._whole.heads(first, end):
            fill(source, pieces, end)

    def read_rings(self, source: Source, slots: int) -> int:
        """Fill the rings behind ``slots`` slots; see ``read``."""
        return self._rings.read(source, slots) if self._rings and slots else 0


def _pages(keys: Keys, slots: int, kv: KvType) -> KvPages:
    return KvPages((keys.layers, 2, keys.kv_heads, slots, kv_row_bytes(keys.head_dim, kv) // 2))
