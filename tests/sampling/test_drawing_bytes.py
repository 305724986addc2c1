"""What drawing from a whole row takes is what budgets of memory count."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from edgedec.core.rows import HeadRows
from edgedec.sampling import DrawParams, draw, drawing_bytes

VOCABULARY = 100_000
CASES = [
    DrawParams(temperature=1.0),
    DrawParams(temperature=2.0, repetition_penalty=1.1),
    DrawParams(temperature=0.8, top_p=0.95),
    DrawParams(temperature=0.8, top_p=0.95, repetition_penalty=1.1),
    DrawParams(temperature=1.0, min_p=0.01),
    DrawParams(temperature=1.0, top_n_sigma=1.0),
    DrawParams(temperature=1.0, frequency_penalty=0.3, logit_bias=((5, 2.0),)),
    DrawParams(temperature=1.0, edt=0.5),
    DrawParams(temperature=1.0, typical=0.99),
    DrawParams(temperature=1.0, top_p=0.99, typical=0.99, top_h=0.99, repetition_penalty=1.1),
    DrawParams(temperature=1.0, top_h=0.99),
    DrawParams(temperature=1.0, eta=1e-7, mirostat=9.0),
]


def flat_row() -> HeadRows:
    """Logits so much alike that no list of the best ones is enough."""
    logits = np.random.default_rng(0).normal(size=(1, VOCABULARY)).astype(np.float32)
    best = np.argsort(-logits[0], kind="stable")[:64]
    total = np.log(np.exp(logits[0].astype(np.float64)).sum())
    sums = np.array([total], dtype=np.float32)
    return HeadRows(logits[:, best], best[None].astype(np.int32), sums, sums, logits)


@pytest.mark.parametrize("params", CASES, ids=str)
def test_drawing_takes_no_more_than_is_counted(params: DrawParams) -> None:
    row = flat_row()
    draw(row, 0, params, 0, [1, 2, 3])  # tables that are made once
    tracemalloc.start()
    try:
        draw(row, 0, params, 1, [1, 2, 3])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    small = 200_000  # what does not grow with the vocabulary
    assert most <= drawing_bytes(params) * VOCABULARY + small


def test_lists_need_nothing() -> None:
    assert drawing_bytes(DrawParams()) == 0
    assert drawing_bytes(DrawParams(temperature=1.0, top_k=40)) == 0
    assert 0 < drawing_bytes(DrawParams(temperature=1.0)) < drawing_bytes(CASES[2])
