"""Eviction by attention: each head keeps the tokens that a draft of the following text attends to.

After SpecKV (Galim et al. 2025, "Draft-based Approximate Inference for LLMs"): the newest tokens (the window)
and a draft of the next tokens (the lookahead) are queries. The slots that they attend to most are kept, after
a maximum over neighbours, so that phrases stay rather than single tokens. Without a lookahead, where nothing
is drafted, it is SnapKV (Li et al. 2024, "SnapKV: LLM Knows What You are Looking for Before
Generation"). The paper evicts once, behind a prompt that was read with all of the cache; here each full cache
is a reason, also within a prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from edgedec.core.cache_config import SLIDE
from edgedec.core.errors import Remedy, UnsupportedError, UsageError
from edgedec.core.forward import Forward
from edgedec.core.rows import FloatArray
from edgedec.eviction.policy import Policy
from edgedec.memory.speckv_bytes import LOOKAHEAD, WINDOW, choice_bytes

Ahead = Callable[[Sequence[int], int], Sequence[int]]
"""Drafts at most so many tokens that may follow these: a function of the tokens, not of earlier drafts."""

NEIGHBOURS = 13
"""Slots over which the maximum is taken. The paper has 7. But a question attends to the words before a
number, whose digits may each be a token: with 7 a model found the first digits again and not the last ones.
"""
LEAST = 16
"""Slots of the smallest cache that the policy accepts."""


class SpecKV(Policy):
    """Evicts the tokens that the window and the lookahead attend to least. ``ahead`` drafts.

    The lookahead within a prompt is the prompt's end: the question, which the reply will be about. Within a
    reply it is the token that has no slot and the tokens that ``ahead`` drafts behind it. The window is fed
    once more, with the lookahead behind it, and the cache is rewound. The same bits come back: a block is at
    least as long as a window, so all of the window was fed after the last eviction.

    Empties the cache. Raises UnsupportedError for a forward that does not evict and attend, UsageError for
    a cache of less than ``LEAST`` slots.
    """

    lossy = "speckv"
    leaving = "tokens that a draft of the following text attends to least have left the cache"

    def __init__(self, forward: Forward, ahead: Ahead) -> None:
        super().__init__(forward)
        if forward.attending is None:
            raise UnsupportedError(
                f"{forward.spec.name} does not report its attention weights",
                hint="use the policy slide",
                remedy=Remedy("when_full", SLIDE),
            )
        if forward.capacity < LEAST:
            raise UsageError(
                f"the policy speckv needs a context of at least {LEAST} tokens, not {forward.capacity}",
                hint="use a larger context",
                remedy=Remedy("context", LEAST),
            )
        self._attending = forward.attending
        self._ahead = ahead
        forward.rewind(0)

    @property
    def slots(self) -> int:
        """Slots for tokens of the sequence; the others are for the lookahead."""
        return self._forward.capacity - min(LOOKAHEAD, self.quarter)

    def _evict(self, first: int, count: int, committed: Sequence[int]) -> None:
        length, window = self._forward.length, min(WINDOW, self.quarter)
        end = self._evicting.resident - window
        queries = [*committed[length - window : length], *self._lookahead(committed)]
        with self._forward.ledger.lease("attention", choice_bytes(self._forward.spec, self.slots)):
            try:
                self._forward.rewind(length - window)
                scores = self._attention(queries, first, end)
            finally:
                self._forward.rewind(min(length, self._forward.length))
            kept = best(scores, end - first - count)
            kept += first
            self._evicting.select(first, end, kept)

    def _lookahead(self, committed: Sequence[int]) -> list[int]:
        """Tokens that may follow the cache, as far as there is room for them."""
        most = max(min(LOOKAHEAD, self.quarter, self._forward.capacity - self._evicting.resident), 0)
        known = committed[self._forward.length :]
        if len(known) >= most:
            return list(known[len(known) - most :])
        return [*known, *self._ahead(committed, most - len(known))]

    def _attention(self, queries: Sequence[int], first: int, end: int) -> FloatArray:
        """Return the greatest weight on each slot of [first, end), f32[layers, kv heads, end - first]."""
        most = self._forward.caps.max_pass
        pieces = (queries[at : at + most] for at in range(0, len(queries), most))
        return reduce(np.maximum, (self._attending.attention(piece)[:, :, first:end] for piece in pieces))


def best(scores: FloatArray, count: int) -> NDArray[np.intp]:
    """Return the indices of the ``count`` best of ``scores`` for each head, ascending.

    ``scores`` is f32[layers, kv heads, n], the result [layers, kv heads, count]. A score counts as the
    greatest among its neighbours; of equal ones the first is better.
    """
    kept = np.empty((*scores.shape[:2], count), dtype=np.intp)
    reach = NEIGHBOURS // 2
    for layer, found in zip(scores, kept, strict=True):  # one layer at a time, for memory
        around = np.pad(layer, ((0, 0), (reach, reach)), constant_values=-np.inf)
        pooled = np.lib.stride_tricks.sliding_window_view(around, NEIGHBOURS, axis=1).max(axis=2)
        found[:] = np.sort(np.argsort(-pooled, axis=1, kind="stable")[:, :count], axis=1)
    return kept
