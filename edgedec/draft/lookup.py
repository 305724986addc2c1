"""Prompt lookup: what followed when these tokens stood here before.

After prompt lookup decoding (Saxena 2023) and SAM-Decoding (Hu et al. 2024); kernels/draft/lookup.h says how.
"""

from __future__ import annotations

from edgedec.core.rows import HeadRows
from edgedec.core.tree import DraftTree
from edgedec.draft.native import NativeDrafter


class Lookup(NativeDrafter):
    """Drafts from the committed tokens of this sequence and of earlier ones, up to ``capacity`` tokens."""

    name = "lookup"
    _wrong = ("half a token", "tokens outside the vocabulary")

    def __init__(self, capacity: int = 1 << 16) -> None:
        super().__init__(capacity)

    def learn(self, tree: DraftTree, rows: HeadRows) -> None:
        """Nothing: only what was committed counts."""
