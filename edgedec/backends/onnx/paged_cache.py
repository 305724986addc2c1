"""Pages of a KV cache: stretches that are files of their own, see ``core.forward.Paged``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgedec.backends.cache_forward import CacheForward
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.core.forward import Paged, Sink, Source

if TYPE_CHECKING:
    from edgedec.backends.onnx.ring_snapshots import RingSnapshots


class PagedCache(CacheForward, Paged):
    """The part of that name over ``_kv``."""

    _kv: KvMemory
    _copies: RingSnapshots | None
    """Of rings that may go round."""

    @property
    def paged(self) -> Paged | None:
        """None for models with states of which no copies are kept."""
        return self if self._states is None or self._states.kept_bytes else None

    @property
    def needs_end(self) -> bool:
        """See ``Paged.needs_end``."""
        return self._states is not None or self._kv.ring > 0

    def end_before(self, length: int) -> int:
        """See ``Paged.end_before``."""
        length = min(length, self.length)
        if self._states:
            length = self._states.snapshots.before(length)
        if not self._held(length) and self._copies:
            length = self._copies.before(length)
        return length if self._has_end(length) else 0

    def page_bytes(self, first: int, end: int) -> int:
        """See ``Paged.page_bytes``."""
        return self._kv.page_bytes(end - first)

    def end_bytes(self, length: int) -> int:
        """See ``Paged.end_bytes``."""
        return self._kv.ring_bytes(length) + (self._states.kept_bytes if self._states else 0)

    def write_page(self, sink: Sink, first: int, end: int) -> None:
        """See ``Paged.write_page``. Slots that lie before a window are there still."""
        if not 0 <= first < end <= self._book.slots or self.evicted:
            raise ValueError(f"cannot write the slots {first} to {end}: {self._book.slots} are taken")
        self._kv.write_page(sink, first, end)

    def write_end(self, sink: Sink, length: int) -> None:
        """See ``Paged.write_end``."""
        found = self._states.snapshots.at(length) if self._states else None
        if not self._has_end(length) or (self._states and found is None):
            raise ValueError(f"cannot write the end behind {length} tokens: it is lost")
        self._write_rings(sink, length)
        if found:
            found.write(sink)

    def _write_rings(self, sink: Sink, length: int) -> None:
        """Write the rings behind ``length`` tokens, of a snapshot where they have gone on."""
        if self._book.holds(length):
            self._kv.write_rings(sink, length, self._book.oldest)
            if not self._book.holds(length):  # a pass books the slots that it overwrites before it begins
                raise ValueError(f"the end behind {length} tokens was lost meanwhile")
            return
        if self._copies is None or (copied := self._copies.at(length)) is None:
            raise ValueError(f"cannot write the end behind {length} tokens: it is lost")
        self._kv.write_copied_rings(sink, length, copied.arrays[0], copied.oldest)

    def read_page(self, source: Source, end: int) -> None:
        """See ``Paged.read_page``."""
        planned = self._plan(end - self.length, None)
        self._kv.read_page(source, planned.start, end)
        self._book.fill(planned)

    def read_end(self, source: Source) -> None:
        """See ``Paged.read_end``."""
        length = self.length
        try:
            self._book.lose(self._kv.read_rings(source, length))
            if self._states:
                self._states.read_snapshot(source, length)
        except BaseException:
            self.rewind(0)
            raise
        self._check_read(length)

    def _has_end(self, length: int) -> bool:
        """Whether the end behind ``length`` tokens is there, in rings or in a snapshot of them."""
        if self._held(length):
            return True
        in_order = length > 0 and self._book.in_order(length)
        return in_order and self._copies is not None and self._copies.at(length) is not None

    def _held(self, length: int) -> bool:
        return length > 0 and not self.evicted and self._book.holds(length)
