"""Drafters in the kernel library (kernels/core/tables/drafter.h), called through ctypes."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from functools import cache
from struct import pack, unpack_from
from typing import ClassVar

from edgedec.core.errors import BackendError
from edgedec.core.rows import HeadRows
from edgedec.core.tree import EMPTY, DraftTree
from edgedec.draft.drafter import Drafter, DrafterCapabilities
from edgedec.kernels.library import library_path

_POINTER, _INT, _SIZE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t
_SIGNATURES = {
    "lookup": (_POINTER, _INT),
    "recycling": (_POINTER, _INT),
    "destroy": (None, _POINTER),
    "most_nodes": (ctypes.c_int,),
    "begin": (None, _POINTER, _POINTER, _INT, _INT),
    "commit": (None, _POINTER, _POINTER, _INT),
    "learn": (None, _POINTER, _INT, *[_POINTER] * 2, _INT, _INT, *[_POINTER] * 3, ctypes.c_double),
    "propose": (ctypes.c_int, _POINTER, _INT, ctypes.c_double, *[_POINTER] * 3),
    "nbytes": (_SIZE, _POINTER),
    "saved_size": (_SIZE, _POINTER),
    "save": (None, _POINTER, _POINTER),
    "restore": (ctypes.c_int, _POINTER, _POINTER, _SIZE, _INT),
}
"""By name without ``edgedec_draft_``: result type, then argument types."""


class NativeDrafter(Drafter):
    """A drafter without a model, whose memory is fixed from the start.

    Tokens are i32: others raise struct.error. Raises BackendError when there is not that much memory.
    """

    caps = DrafterCapabilities(remembers=True)
    _wrong: ClassVar[tuple[str, ...]]
    """Reasons why saved bytes cannot be restored, by the library's return value less one."""

    def __init__(self, size: int) -> None:
        self._library = library = _library()
        self.handle = getattr(library, f"edgedec_draft_{self.name}")(size)
        if not self.handle:
            raise BackendError(f"there is no memory for the drafter {self.name}", hint="draft without it")
        weakref.finalize(self, library.edgedec_draft_destroy, self.handle)
        most = library.edgedec_draft_most_nodes()
        self._tokens, self._parents = (ctypes.c_int32 * most)(), (ctypes.c_int32 * most)()
        self._probs = (ctypes.c_double * most)()
        self._room = tuple(map(ctypes.addressof, (self._tokens, self._parents, self._probs)))

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        count = len(tokens)
        self._library.edgedec_draft_begin(self.handle, pack(f"{count}i", *tokens), count, kept)

    def commit(self, tokens: Sequence[int]) -> None:
        count = len(tokens)
        self._library.edgedec_draft_commit(self.handle, pack(f"{count}i", *tokens), count)

    def observe(self, tree: DraftTree, rows: HeadRows) -> None:
        count, columns = rows.ids.shape
        # To copy an array costs a fraction of finding out its address.
        best, logits, totals = rows.ids.tobytes(), rows.values.tobytes(), rows.logsumexp.tobytes()
        if not len(best) == len(logits) == columns * len(totals) == 4 * count * columns:
            raise ValueError("rows of other shapes or types than HeadRows says")
        nodes = len(tree.tokens)
        tokens, parents = pack(f"{nodes}i", *tree.tokens), pack(f"{nodes}i", *tree.parents)
        self._library.edgedec_draft_learn(
            self.handle, nodes, tokens, parents, count, columns, best, logits, totals, rows.temperature
        )

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        count = self._library.edgedec_draft_propose(self.handle, limit, floor, *self._room)
        if not count:
            return EMPTY
        ints = f"{count}i"
        return DraftTree(
            unpack_from(ints, self._tokens),
            unpack_from(ints, self._parents),
            unpack_from(f"{count}d", self._probs),
            (self.name,) * count,
        )

    def nbytes(self) -> int:
        return int(self._library.edgedec_draft_nbytes(self.handle))

    def saved(self) -> bytes:
        data = ctypes.create_string_buffer(self._library.edgedec_draft_saved_size(self.handle))
        self._library.edgedec_draft_save(self.handle, data)
        return data.raw

    def restore(self, data: bytes, vocab_size: int) -> None:
        wrong = self._library.edgedec_draft_restore(self.handle, data, len(data), vocab_size)
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


@cache
def _library() -> ctypes.PyDLL:
    """The kernel library, called with the interpreter's lock held: most calls take less than 1 us."""
    library = ctypes.PyDLL(str(library_path()))
    for name, (restype, *argtypes) in _SIGNATURES.items():
        function = getattr(library, f"edgedec_draft_{name}")
        function.restype, function.argtypes = restype, argtypes
    return library
