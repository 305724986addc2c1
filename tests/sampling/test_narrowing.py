"""Typical, eta, top-H, mirostat and entropy-dependent temperature, against plain definitions."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from edgedec.core.errors import BackendError
from edgedec.sampling import DrawParams
from tests.fixtures.nightly import every
from tests.reference import sampling
from tests.reference.sampling import distribution
from tests.sampling import support
from tests.sampling.drawing import Drawing, core, draw
from tests.sampling.support import chi_square_p, head

SINGLE = [
    DrawParams(temperature=1.0, typical=0.6),
    DrawParams(temperature=0.8, typical=0.95),
    DrawParams(temperature=1.0, eta=0.05),
    DrawParams(temperature=1.3, eta=0.3),
    DrawParams(temperature=1.0, top_h=0.4),
    DrawParams(temperature=2.0, top_h=0.8),
    DrawParams(temperature=1.0, mirostat=1.2),
    DrawParams(temperature=0.9, mirostat=2.5),
    DrawParams(temperature=1.2, edt=0.7),
]
MIXED = [
    DrawParams(temperature=1.1, top_k=12, typical=0.8, eta=0.01, top_h=0.9, mirostat=2.0, edt=0.2),
    DrawParams(temperature=0.9, top_p=0.95, typical=0.7, repetition_penalty=1.2),
    DrawParams(temperature=1.0, min_p=0.02, top_h=0.5, frequency_penalty=0.4),
    DrawParams(temperature=1.0, top_n_sigma=1.5, eta=0.1, logit_bias=((2, -100.0), (9, 3.0))),
    DrawParams(temperature=0.7, edt=0.3, top_p=0.9, presence_penalty=0.6),
]
SETTINGS = [*SINGLE, *MIXED]
LOGITS = st.lists(st.floats(-12, 12, width=32), min_size=1, max_size=24)


@settings(max_examples=300, deadline=None)
@given(LOGITS, st.sampled_from(SETTINGS), st.lists(st.integers(0, 23), max_size=6))
def test_the_distribution_is_that_of_the_definition(
    logits: list[float], params: DrawParams, said: list[int]
) -> None:
    said = [token for token in said if token < len(logits)]
    assume(len(logits) > 9 or not params.logit_bias)
    expected = support.distribution(logits, params, said)
    assume(all(set(support.distribution(logits, one, said)) == set(expected) for one in nudged(params)))
    found = distribution(head(np.array(logits), 5, full=True), 0, params, said, len(logits))
    assert set(np.flatnonzero(found > 1e-290)) == {v for v, p in expected.items() if p > 1e-290}
    assert found.tolist() == pytest.approx([expected.get(v, 0.0) for v in range(len(logits))], abs=2e-5)


def nudged(params: DrawParams) -> list[DrawParams]:
    """The same with its cuts a hair further out, and further in."""
    return [
        replace(
            params, top_p=min(1.0, params.top_p * out), typical=min(1.0, params.typical * out),
            eta=params.eta / out, top_h=min(1.0, params.top_h * out), mirostat=params.mirostat * out,
        )
        for out in (1.00001, 0.99999)
    ]  # fmt: skip


@pytest.mark.parametrize("params", every(2, SETTINGS), ids=str)
def test_tokens_are_drawn_from_that_distribution(params: DrawParams) -> None:
    logits = np.array([2.0, 1.9, 1.0, 0.6, 0.5, 0.0, -0.4, -1.0, -1.5, -3.0], dtype=np.float32)
    expected = support.distribution(logits.tolist(), params, [1, 1, 4])
    assert len(expected) > 1
    rows = head(logits, 4, full=True)
    counts = Counter(draw(rows, 0, params, position, [1, 1, 4]) for position in range(1_500))
    assert chi_square_p(counts, expected) > 1e-4


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_edt_lowers_the_temperature_where_the_model_is_sure(temperature: float) -> None:
    params = DrawParams(temperature=temperature, edt=0.5)
    sure, unsure = head(np.array([9.0, 0.0, 0.0]), 3, full=True), head(np.zeros(50), 3, full=True)
    warm, cold = (sampling.temperature_of(params, rows, 0) for rows in (unsure, sure))
    assert warm == pytest.approx(temperature * 0.8 ** (0.5 / math.log(50)), rel=1e-6)
    assert cold < 0.01 * warm
    assert {draw(sure, 0, params, position, []) for position in range(300)} == {0}
    with pytest.raises(BackendError, match="entropy at temperature 1"):
        draw(head(np.zeros(50), 3, full=False, temperature=0.7), 0, params, 0, [])


def test_mirostat_begins_at_twice_its_target_and_follows_the_surprise() -> None:
    params = DrawParams(temperature=1.0, mirostat=1.6, mirostat_eta=0.2)
    rows = head(np.log(np.array([0.5, 0.25, 0.125, 0.0625, 0.0625])), 5, full=True)
    bounds = {}
    for position in range(50):
        found = core(Drawing(rows, params, position, 5))
        bounds[found.token] = found.bound
    assert set(bounds) == {0, 1, 2}  # the cut at 3.2 bits leaves 7/8
    assert bounds[1] == pytest.approx(3.2 - 0.2 * (-math.log2(0.25 * 8 / 7) - 1.6))
    tight = {core(Drawing(rows, params, position, 5, bound=0.5)).token for position in range(50)}
    assert tight == {0}
