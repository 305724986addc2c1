"""Drafters in the kernel library (kernels/core/tables/drafter.h), called through ctypes."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import ClassVar

from edgedec.core.errors import BackendError
from edgedec.core.rows import HeadRows
from edgedec.core.tree import DraftTree
from edgedec.core_lib.binding import INT, LONG, POINTER, REAL, SIZE, Functions
from edgedec.core_lib.draft_room import DraftRoom, ints
from edgedec.draft.drafter import Drafter, DrafterCapabilities

_TABLES = Functions(
    "edgedec_draft_",
    lookup=(POINTER, LONG),
    recycling=(POINTER, LONG),
    destroy=(None, POINTER),
    most_nodes=(INT,),
    begin=(None, POINTER, POINTER, LONG, LONG),
    commit=(None, POINTER, POINTER, LONG),
    learn=(None, POINTER, LONG, *[POINTER] * 2, LONG, LONG, *[POINTER] * 3, REAL),
    propose=(INT, POINTER, LONG, REAL, *[POINTER] * 3),
    nbytes=(SIZE, POINTER),
    saved_size=(SIZE, POINTER),
    save=(None, POINTER, POINTER),
    restore=(INT, POINTER, POINTER, SIZE, LONG),
)


class NativeDrafter(Drafter):
    """A drafter without a model, whose memory is fixed from the start.

    Tokens are i32: others raise struct.error. Raises BackendError when there is not that much memory.
    """

    caps = DrafterCapabilities(remembers=True)
    _wrong: ClassVar[tuple[str, ...]]
    """Reasons why saved bytes cannot be restored, by the library's return value less one."""

    def __init__(self, size: int) -> None:
        self.handle = getattr(_TABLES, self.name)(size)
        if not self.handle:
            raise BackendError(f"there is no memory for the drafter {self.name}", hint="draft without it")
        weakref.finalize(self, _TABLES.destroy, self.handle)
        self._room = DraftRoom(_TABLES.most_nodes())

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        _TABLES.begin(self.handle, ints(tokens), len(tokens), kept)

    def commit(self, tokens: Sequence[int]) -> None:
        _TABLES.commit(self.handle, ints(tokens), len(tokens))

    def observe(self, tree: DraftTree, rows: HeadRows) -> None:
        count, columns = rows.ids.shape
        # To copy an array costs a fraction of finding out its address.
        best, logits, totals = rows.ids.tobytes(), rows.values.tobytes(), rows.logsumexp.tobytes()
        if not len(best) == len(logits) == columns * len(totals) == 4 * count * columns:
            raise ValueError("rows of other shapes or types than HeadRows says")
        _TABLES.learn(
            self.handle,
            len(tree),
            ints(tree.tokens),
            ints(tree.parents),
            count,
            columns,
            best,
            logits,
            totals,
            rows.temperature,
        )

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        count = _TABLES.propose(self.handle, limit, floor, *self._room.addresses)
        return self._room.tree(count, self.name)

    def nbytes(self) -> int:
        return int(_TABLES.nbytes(self.handle))

    def saved(self) -> bytes:
        data = ctypes.create_string_buffer(_TABLES.saved_size(self.handle))
        _TABLES.save(self.handle, data)
        return data.raw

    def restore(self, data: bytes, vocab_size: int) -> None:
        wrong = _TABLES.restore(self.handle, data, len(data), vocab_size)
        if wrong:
            raise ValueError(self._wrong[wrong - 1])
        self.pretrained = True


def table_of(drafter: Drafter) -> int | None:
    """Return the handle of a drafter that the core can call itself; None for one that is Python's in part."""
    if not isinstance(drafter, NativeDrafter):
        return None
    kind = type(drafter)
    whole = kind.begin is NativeDrafter.begin and kind.commit is NativeDrafter.commit
    return drafter.handle if whole and kind.propose is NativeDrafter.propose else None
