"""Drafts from a user's own files: propose what followed these tokens there.

After REST (He et al. 2023) and RASD (Quan et al. 2025); kernels/core/tables/file_lookup.h says how.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgedec.core.rows import HeadRows
from edgedec.core.tree import DraftTree
from edgedec.draft.drafter import DrafterCapabilities
from edgedec.draft.native import NativeDrafter, files_depth

Tokens = NDArray[np.int32]

SEPARATOR = -1
"""Stands behind each file of an index."""


class OwnFiles(NativeDrafter):
    """Drafts from an index: ``tokens`` of files, i32[n], and their places in the ``order_of`` them, i32[n].

    Any numbers may be in it; those that are no tokens, or no places, draft nothing.
    """

    name = "files"
    caps = DrafterCapabilities()

    def __init__(self, tokens: Tokens, order: Tokens, vocab_size: int) -> None:
        if not tokens.shape == order.shape == (tokens.size,) or not tokens.dtype == order.dtype == np.int32:
            raise ValueError("an index is two rows of as many i32")
        self._index = np.ascontiguousarray(tokens), np.ascontiguousarray(order)  # they live as long as this
        places = [part.ctypes.data for part in self._index]
        super().__init__(*places, tokens.size, vocab_size)

    def observe(self, tree: DraftTree, rows: HeadRows) -> None:
        """Ignore the head rows: files do not change."""


def order_of(tokens: Tokens) -> Tokens:
    """Return all places in ``tokens``, ordered by the tokens before each, read backwards; equal ones ascend.

    Tokens before a place count as far as ``files_depth`` says. Ranks by 1, 2, 4, ... of them are made out of
    each other, as prefix doubling does (Manber and Myers 1993).
    """
    count = tokens.size
    ranks = np.zeros(count, np.int64)  # by the token before a place; 0: the text begins there
    ranks[1:] = tokens[:-1].astype(np.int64) + 2
    order = np.argsort(ranks, kind="stable")
    width = 1
    while width < files_depth():
        above = int(ranks.max(initial=0)) + 1
        keys = ranks * above
        keys[width:] += ranks[:-width] if count > width else 0
        order = np.argsort(keys, kind="stable")
        ranks = np.empty(count, np.int64)
        ranks[order] = np.cumsum(np.diff(keys[order], prepend=keys[order[:1]]) != 0)
        width *= 2
    return order.astype(np.int32)
