"""Agreement of a way to draft with replies, as it is and as it corrects itself."""

from __future__ import annotations

import numpy as np
import pytest

from edgedec.core.rows import HeadRows
from edgedec.training.exit_agreement import Agreed


def answers(logits: np.ndarray) -> HeadRows:
    order = np.argsort(-logits, axis=1, kind="stable").astype(np.int32)
    values = np.take_along_axis(logits, order, axis=1).astype(np.float32)
    total = np.log(np.exp(values).sum(axis=1)).astype(np.float32)
    return HeadRows(values, order, total, np.zeros(len(values), np.float32))


def test_a_way_that_always_prefers_the_same_wrong_token_is_right_more_often_corrected() -> None:
    """Token 3 has a logit that is too high everywhere, by less than the best one of the text needs."""
    dice = np.random.default_rng(0)
    came = dice.integers(4, 20, 400)
    logits = np.zeros((400, 20))
    logits[np.arange(400), came] = 2.0
    logits[:, 3] = 2.5
    found = Agreed()
    for start in range(0, 400, 8):
        found.add(answers(logits[start : start + 8]), came[start : start + 8].tolist())
    assert (found.tokens, found.rate) == (400, 0.0)
    assert found.corrected_rate > 0.8


def test_nothing_asked_is_no_agreement() -> None:
    assert (Agreed().rate, Agreed().corrected_rate) == (pytest.approx(0.0), pytest.approx(0.0))
