"""Bytes that choosing tokens by attention takes, for ``eviction.speckv`` and for the memory plan."""

from __future__ import annotations

from edgedec.core.model_spec import ModelSpec
from edgedec.core_lib.memory import MEMORY, packed
from edgedec.memory.sizes import numbers_of

WINDOW = 32
"""Newest tokens that are queries, and stay; at most a quarter of the cache."""
LOOKAHEAD = 16
"""Tokens of the lookahead, and slots that are kept free for them; at most a quarter of the cache."""


def choice_bytes(spec: ModelSpec, slots: int) -> int:
    """Return the bytes that a choice among ``slots`` takes for a moment, beside the attention to them."""
    return int(MEMORY.choice_bytes(packed(numbers_of(spec)), slots))
