"""Which tokens survive in the oracle, and with what probability, against an independent implementation."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgedec.sampling import DrawParams
from tests.reference import noise, sampling
from tests.sampling.support import distribution, head

LOGITS = st.lists(st.floats(-12, 12, width=32), min_size=1, max_size=24)
ANY_PARAMS = st.builds(
    DrawParams,
    temperature=st.floats(0.05, 3.0),
    top_k=st.integers(0, 30),
    top_p=st.floats(0.01, 1.0),
    min_p=st.floats(0.0, 1.0),
    top_n_sigma=st.one_of(st.just(0.0), st.floats(0.1, 3.0)),
    repetition_penalty=st.one_of(st.just(1.0), st.floats(0.5, 2.0)),
    frequency_penalty=st.one_of(st.just(0.0), st.floats(-2.0, 2.0)),
    presence_penalty=st.one_of(st.just(0.0), st.floats(-2.0, 2.0)),
    logit_bias=st.dictionaries(st.integers(1, 30), st.floats(-100.0, 100.0), max_size=3),
)
HISTORY = st.lists(st.integers(0, 30), max_size=8)


def kept(logits: list[float], params: DrawParams, history: list[int], k: int = 6) -> sampling.Kept:
    row = sampling.row_of(head(np.array(logits), k, full=True), 0, params, history)
    return sampling.survivors(row, params)


def distribution_of(left: sampling.Kept, temperature: float) -> dict[int, float]:
    values, ids = left
    weights = noise.exp((values - values.max()) / temperature)
    return dict(zip(ids.tolist(), (weights / weights.sum()).tolist(), strict=True))


@settings(max_examples=400)
@given(LOGITS, ANY_PARAMS, HISTORY)
@example([0.0, 10.0], DrawParams(temperature=0.25), [])
@example([0.0, 0.0, 6.5], DrawParams(temperature=0.1796875, top_p=1 - 2**-53), [])
def test_the_warped_distribution_is_the_reference_distribution(
    logits: list[float], params: DrawParams, history: list[int]
) -> None:
    """Exact enumeration to 1e-12, except that a cut within 3e-6 of a threshold may fall on either side.

    (At temperature 1 top-p uses the head's fp32 logsumexp.)
    """
    ours = distribution_of(kept(logits, params, history), params.temperature)
    fewest, most = (
        distribution(logits, nudged(params, -1), history),
        distribution(logits, nudged(params, 1), history),
    )
    assert is_between(ours, fewest, most), (ours, fewest, most)


def nudged(params: DrawParams, sign: int) -> DrawParams:
    """The same with its thresholds moved a hair, so that fewer tokens stay (``sign`` -1) or more (1)."""
    return replace(
        params,
        top_p=min(1.0, params.top_p * (1 + sign * 3e-6)),
        min_p=min(1.0, params.min_p * (1 - sign * 1e-9)),
        top_n_sigma=params.top_n_sigma * (1 + sign * 1e-9),
    )


def is_between(ours: dict[int, float], fewest: dict[int, float], most: dict[int, float]) -> bool:
    """Whether ``ours`` is the distribution ``most`` cut off at a place no earlier than that of ``fewest``."""
    if not set(fewest) <= set(ours) <= set(most):
        return False
    whole = math.fsum(most[v] for v in ours)
    cut = max((p for v, p in most.items() if v not in ours), default=0.0)
    return cut <= min(most[v] for v in ours) and all(
        math.isclose(p, most[v] / whole, abs_tol=1e-12, rel_tol=1e-12) for v, p in ours.items()
    )


def test_is_between_can_fail() -> None:
    distribution = {1: 0.5, 2: 0.3, 3: 0.2}
    assert is_between({1: 0.625, 2: 0.375}, {1: 1.0}, distribution)
    assert not is_between({1: 0.6, 2: 0.4}, {1: 1.0}, distribution)
    assert not is_between({1: 1.0}, {1: 0.625, 2: 0.375}, distribution)
    assert not is_between({1: 0.5, 3: 0.5}, {1: 1.0}, distribution)
    assert not is_between(distribution, {1: 1.0}, {1: 0.625, 2: 0.375})


def test_excluded_tokens_do_not_count_for_sigma_and_are_never_kept_by_it() -> None:
    row = np.array([1.0, -np.inf, 3.0, -np.inf])
    assert sampling.sigma_cut(row, 1.0) == pytest.approx(3.0 - 1.0)
