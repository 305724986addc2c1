"""Eviction by attention: each head keeps the tokens that a draft of the following text attends to.

After SpecKV (Galim et al. 2025, "Draft-based Approximate Inference for LLMs"): the newest tokens (the window)
and a draft of the next tokens (the lookahead) are queries. The slots that they attend to most are kept, after
a maximum over neighbours, so that phrases stay rather than single tokens. Without a lookahead, where nothing
is drafted, it is SnapKV (Li et al. 2024, "SnapKV: LLM Knows What You are Looking for Before
Generation"). The paper does this once, behind a prompt that was read with all of the cache; here it happens
whenever the cache is full, also within a prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import Remedy, UnsupportedError, UsageError
from edgedec.core.forward import Forward
from edgedec.core.rows import FloatArray
from edgedec.core.when_full import SLIDE
from edgedec.eviction.policy import Policy
from edgedec.memory.speckv_bytes import LOOKAHEAD, WINDOW, choice_bytes

Ahead = Callable[[Sequence[int], int], Sequence[int]]
"""At most so many tokens that may follow these. A function of them alone, whatever was drafted before."""

NEIGHBOURS = 13
"""Slots over which the maximum is taken. The paper has 7; but a question looks at the words before a number,
and every digit of that may be a token: with 7 the first digits were found again and the last ones were not.
"""
LEAST = 16
"""Slots of the smallest cache for this."""


class SpecKV(Policy):
    """Evicts the tokens that the window and the lookahead attend to least. ``ahead`` drafts.

    While a prompt is read its end is the lookahead: the question, which the reply will be about. Within a
    reply the token that has no slot is known, and ``ahead`` drafts the tokens that may follow it. The window
    is fed once more, with the lookahead behind it, and the cache is taken back to where it was: the same bits
    come back, since all of the window was fed after the last block had left (a block is at least as long as a
    window).

    Begins with an empty cache. Raises UnsupportedError also for a bundle that cannot report attention
    weights, UsageError for a cache of less than ``LEAST`` slots.
    """

    lossy = "speckv"
    leaving = "tokens that a draft of the following text attends to least have left the cache"

    def __init__(self, forward: Forward, ahead: Ahead) -> None:
        super().__init__(forward)
        if not forward.caps.attention:
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
        self._ahead = ahead
        forward.rewind(0)

    @property
    def slots(self) -> int:
        """Slots for tokens of the sequence: some are kept free for the lookahead."""
        return self._forward.capacity - min(LOOKAHEAD, self.quarter)

    def _evict(self, first: int, count: int, committed: Sequence[int]) -> None:
        length, window = self._forward.length, min(WINDOW, self.quarter)
        end = self._forward.resident - window
        queries = [*committed[length - window : length], *self._lookahead(committed)]
        with self._forward.ledger.lease("attention", choice_bytes(self._forward.spec, self.slots)):
            try:
                self._forward.rewind(length - window)
                scores = self._attention(queries, first, end)
            finally:
                self._forward.rewind(min(length, self._forward.length))
            kept = best(scores, end - first - count)
            kept += first
            self._forward.select(first, end, kept)

    def _lookahead(self, committed: Sequence[int]) -> list[int]:
        """Tokens that may follow the cache, as far as there is room for them."""
        most = max(min(LOOKAHEAD, self.quarter, self._forward.capacity - self._forward.resident), 0)
        known = committed[self._forward.length :]
        if len(known) >= most:
            return list(known[len(known) - most :])
        return [*known, *self._ahead(committed, most - len(known))]

    def _attention(self, queries: Sequence[int], first: int, end: int) -> FloatArray:
        """The greatest weight that the slots [first, end) are given, f32[layers, kv heads, end - first]."""
        most = self._forward.caps.max_pass
        pieces = (queries[at : at + most] for at in range(0, len(queries), most))
        return reduce(np.maximum, (self._forward.attention(piece)[:, :, first:end] for piece in pieces))


def best(scores: FloatArray, count: int) -> NDArray[np.intp]:
    """The ``count`` best of scores[layers, kv heads, n] for each head, ascending, [layers, kv heads, count].

    A score counts as the greatest among its neighbours'; of equals the first ones are better.
    """
    kept = np.empty((*scores.shape[:2], count), dtype=np.intp)
    reach = NEIGHBOURS // 2
    for layer, found in zip(scores, kept, strict=True):  # one layer at a time, for memory
        around = np.pad(layer, ((0, 0), (reach, reach)), constant_values=-np.inf)
        pooled = np.lib.stride_tricks.sliding_window_view(around, NEIGHBOURS, axis=1).max(axis=2)
        found[:] = np.sort(np.argsort(-pooled, axis=1, kind="stable")[:, :count], axis=1)
    return kept
