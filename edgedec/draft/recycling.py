"""Token recycling: what the target thought of last time in this context.

After Luo et al. 2024; kernels/draft/recycling.h says how.
"""

from __future__ import annotations

from edgedec.draft.native import NativeDrafter


class Recycling(NativeDrafter):
    """Drafts successors of successors from at most ``memory`` bytes of answers."""

    name = "recycling"
    _wrong = (
        "not the answers of a table of this size",
        "answers outside the vocabulary",
        "answers more probable than certain",
    )

    def __init__(self, *, memory: int = 1 << 21) -> None:
        super().__init__(memory)
