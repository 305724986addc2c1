"""The table of recycling, made of a target's replies, so that the first reply is not drafted from nothing.

It gets the contexts that its target meets most, with the tokens that followed there and how often.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import HeadRows
from edgedec.core.tree import EMPTY
from edgedec.draft import Recycling
from edgedec.training.rollouts import Rollout

WIDTH = 4
"""Answers that recycling keeps for a context."""
_DOUBT = 0.5
"""Occurrences with yet another answer that are added to those counted."""
_SMALLEST = 1e-6

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Contexts:
    """Contexts and what followed there, by how much is gained from knowing them, the least first.

    before i64[c] (-1: a context of one token), last i64[c], ids i64[c,WIDTH] best first (-1: no more),
    probs f64[c,WIDTH].
    """

    before: I64
    last: I64
    ids: I64
    probs: F64

    def __len__(self) -> int:
        return int(self.last.size)


def contexts_of(rollouts: Iterable[Rollout]) -> Contexts:
    """Count what follows two tokens, and one, in the replies. Raises ValueError if there are none."""
    triples = np.concatenate([_triples(one) for one in rollouts], axis=1)
    alone = np.stack([np.full_like(triples[0], -1), triples[1], triples[2]])
    both = [_counted(one) for one in (alone, triples)]
    before, last, ids, probs, gains = (np.concatenate(column) for column in zip(*both, strict=True))
    order = np.argsort(gains, kind="stable")
    return Contexts(before[order], last[order], ids[order], probs[order])


def _triples(one: Rollout) -> I64:
    """Return each token of the reply, below the two before it; i64[3,n]."""
    tokens = np.array([-1, *one.prompt, *one.reply], dtype=np.int64)
    first = len(one.prompt)
    return np.stack([tokens[first - 1 : -2], tokens[first:-1], tokens[first + 1 :]])


def _counted(triples: I64) -> tuple[I64, I64, I64, F64, F64]:
    """Return the columns of ``Contexts``, and the gain of each: tokens foretold by its first answer."""
    cells, counts = np.unique(triples, axis=1, return_counts=True)
    contexts, place = np.unique(cells[:2], axis=1, return_inverse=True)
    place = place.ravel()
    seen = np.bincount(place, counts)
    order = np.lexsort((cells[2], -counts, place))
    context, token, count = place[order], cells[2][order], counts[order]
    rank = np.arange(context.size) - np.searchsorted(context, context)
    best = rank < WIDTH
    ids = np.full((seen.size, WIDTH), -1, dtype=np.int64)
    probs = np.zeros((seen.size, WIDTH))
    ids[context[best], rank[best]] = token[best]
    probs[context[best], rank[best]] = count[best] / (seen[context[best]] + _DOUBT)
    return contexts[0], contexts[1], ids, probs, seen * probs[:, 0]


def recycling_table(contexts: Contexts) -> bytes:
    """Return the table of a recycling drafter that was told the contexts, the best ones last."""
    drafter = Recycling.within(Recycling.useful_bytes)
    logits = np.log(np.maximum(contexts.probs, _SMALLEST)).astype(np.float32)
    ids = contexts.ids.astype(np.int32)
    zero = np.zeros(1, dtype=np.float32)
    for at, (before, last) in enumerate(zip(contexts.before.tolist(), contexts.last.tolist(), strict=True)):
        context = [last] if before < 0 else [before, last]
        drafter.begin(context, len(context))
        drafter.observe(EMPTY, HeadRows(logits[at : at + 1], ids[at : at + 1], zero, zero))
        drafter.commit([])
    return drafter.saved()
