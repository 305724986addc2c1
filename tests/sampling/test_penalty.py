"""The repetition penalty: what it costs, and that its corrected sums decide as the whole row does."""

from __future__ import annotations

import time

import numpy as np
import pytest

from edgedec.backends.head_rows import head_rows
from edgedec.core.rows import HeadRows
from edgedec.core.tree import EMPTY
from edgedec.core_lib.engine import ReplyStart
from edgedec.core_lib.needs import head_temperature
from edgedec.sampling import DrawParams
from tests.reference import sampling
from tests.sampling.drawing import ENDLESS, draw, spec_of
from tests.sampling.reply_handle import ReplyHandle

VOCAB = 20_000
PARAMS = [
    DrawParams(temperature=0.8, top_p=0.95, repetition_penalty=1.1, seed=1),
    DrawParams(temperature=0.8, top_p=0.9, min_p=0.02, repetition_penalty=1.3, seed=2),
    DrawParams(temperature=1.5, top_p=0.7, repetition_penalty=1.05, seed=3),
    DrawParams(temperature=0.7, top_p=0.95, repetition_penalty=0.9, seed=4),
]


def text_like(seed: int, params: DrawParams) -> tuple[HeadRows, list[int]]:
    """A row with some probable tokens, and a history that has many of them."""
    rng = np.random.default_rng(seed)
    logits = (rng.standard_normal((1, VOCAB)) * 2.0).astype(np.float32)
    likely = rng.integers(0, VOCAB, 40)
    logits[0, likely] += np.linspace(rng.uniform(14, 20), 4, 40).astype(np.float32)
    history = [*rng.integers(0, VOCAB, 500).tolist(), *likely[rng.random(40) < 0.7].tolist()]
    return head_rows(logits, 64, full=True, temperature=head_temperature(params)), history


@pytest.mark.parametrize("params", PARAMS)
def test_the_token_is_that_of_the_sum_of_the_whole_row(params: DrawParams) -> None:
    for seed in range(100):
        rows, history = text_like(seed, params)
        expected = sampling.draw(rows, 0, params, seed, history)
        assert draw(rows, 0, params, seed, history) == expected


def test_a_mass_at_a_bound_is_decided_by_the_whole_row() -> None:
    """Top-p that ends exactly where tokens end, within the error of the head's own sum."""
    rng = np.random.default_rng(5)
    differs = 0
    for position in range(40):
        logits = np.round(rng.standard_normal((1, 400)) * 2).astype(np.float32)
        history = rng.integers(0, 400, 60).tolist()
        plain = DrawParams(temperature=1.0, repetition_penalty=1.25, seed=position)
        rows = head_rows(logits, 64, full=True)
        law = np.sort(sampling.distribution(rows, 0, plain, history, 400))[::-1].cumsum()
        for mass in law[[3, 9, 20]].tolist():
            for top_p in (mass, np.nextafter(mass, 0.0), np.nextafter(mass, 1.0)):
                params = DrawParams(
                    temperature=1.0, repetition_penalty=1.25, seed=position, top_p=float(top_p)
                )
                token = draw(rows, 0, params, position, history)
                assert token == sampling.draw(rows, 0, params, position, history)
                differs += token != draw(rows, 0, plain, position, history)
    assert differs > 20  # the cut decided


def test_a_long_history_costs_no_more_than_a_short_one() -> None:
    """Per token; the handle keeps what occurred, not a copy of the sequence."""
    params = DrawParams(repetition_penalty=1.1)
    rows, _ = text_like(1, params)
    took = {}
    for length in (100, 100_000):
        tokens = np.random.default_rng(2).integers(0, VOCAB, length).tolist()
        handle = ReplyHandle(params, spec_of(VOCAB), ReplyStart(ENDLESS, tokens))
        best = 1.0
        for _ in range(200):
            began = time.perf_counter()
            handle.verdict_on(EMPTY, rows, 5)
            best = min(best, time.perf_counter() - began)
        took[length] = best
    assert took[100_000] < 3 * took[100] + 50e-6
