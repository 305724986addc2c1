"""Prompt lookup: propose what followed when these tokens stood here before.

After prompt lookup decoding (Saxena 2023) and SAM-Decoding (Hu et al. 2024). kernels/core/tables/lookup.h
says how.
"""

from __future__ import annotations

from typing import Self

from edgedec.core.rows import HeadRows
from edgedec.core.tree import DraftTree
from edgedec.draft.native import NativeDrafter

_TOKEN_BYTES = 10
"""Memory of a token that it knows."""


class Lookup(NativeDrafter):
    """Drafts from the committed tokens of this sequence and of earlier ones, up to ``capacity`` tokens."""

    name = "lookup"
    useful_bytes = _TOKEN_BYTES << 16
    _wrong = ("half a token", "tokens outside the vocabulary")

    def __init__(self, capacity: int = 1 << 16) -> None:
        super().__init__(capacity)

    @classmethod
    def within(cls, nbytes: int) -> Self:
        return cls(nbytes // _TOKEN_BYTES)

    def observe(self, tree: DraftTree, rows: HeadRows) -> None:
        """Ignore the head rows: only committed tokens count."""
