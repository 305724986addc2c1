"""Token recycling: propose the tokens that the target found probable the last time in this context.

After Luo et al. 2024; kernels/core/tables/recycling.h says how.
"""

from __future__ import annotations

from typing import Self

from edgedec.draft.native import NativeDrafter


class Recycling(NativeDrafter):
    """Drafts successors of successors from at most ``memory`` bytes of the target's answers."""

    name = "recycling"
    useful_bytes = 1 << 21
    _wrong = (
        "not the answers of a table of this size",
        "answers outside the vocabulary",
        "answers more probable than certain",
    )

    def __init__(self, *, memory: int = 1 << 21) -> None:
        super().__init__(memory)

    @classmethod
    def within(cls, nbytes: int) -> Self:
        return cls(memory=nbytes)
