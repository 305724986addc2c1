"""One token, whichever way it is decided."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.core.errors import BackendError
from edgedec.core.rows import HeadRows
from edgedec.core_lib.needs import head_temperature, needs_logits
from edgedec.sampling import DrawParams
from tests.fixtures.nightly import every
from tests.reference import sampling
from tests.sampling.drawing import draw
from tests.sampling.support import distribution, head
from tests.sampling.test_warpers import ANY_PARAMS, HISTORY, LOGITS

K = 16


def random_params(rng: np.random.Generator) -> DrawParams:
    def maybe(off: Any, on: Any, chance: float = 0.5) -> Any:
        return on if rng.random() < chance else off

    return DrawParams(
        temperature=float(rng.choice([0.0, 0.3, 0.7, 1.0, 1.0, 1.5])),
        top_k=int(maybe(0, rng.integers(1, 2 * K))),
        top_p=maybe(1.0, float(rng.uniform(0.05, 1.0))),
        min_p=maybe(0.0, float(rng.uniform(0.001, 0.5))),
        top_n_sigma=maybe(0.0, float(rng.uniform(0.5, 3.0)), 0.2),
        repetition_penalty=maybe(1.0, float(rng.choice([0.8, 1.05, 1.3, 3.0])), 0.4),
        frequency_penalty=maybe(0.0, float(rng.choice([-0.5, 0.3, 2.0])), 0.08),
        presence_penalty=maybe(0.0, float(rng.choice([-0.5, 0.3, 2.0])), 0.08),
        typical=maybe(1.0, float(rng.uniform(0.1, 0.99)), 0.06),
        eta=maybe(0.0, float(rng.uniform(0.001, 0.3)), 0.06),
        top_h=maybe(1.0, float(rng.uniform(0.1, 0.9)), 0.06),
        mirostat=maybe(0.0, float(rng.uniform(0.5, 3.0)), 0.06),
        edt=maybe(0.0, float(rng.uniform(0.1, 2.0)), 0.06),
        logit_bias=maybe((), ((3, -100.0), (7, 4.0)), 0.08),
        seed=int(rng.integers(2**63)),
    )


def random_logits(rng: np.random.Generator, size: int) -> np.ndarray:
    """Some coarse (many equal values), some fine, flat or peaked."""
    logits = rng.normal(size=size) * rng.choice([0.5, 2.0, 5.0])
    if rng.random() < 0.5:
        logits = np.rint(logits * 4) / 4
    return logits.astype(np.float32)


def loosened(params: DrawParams) -> DrawParams:
    """The same with cuts a hair further out."""
    return replace(
        params,
        top_p=min(1.0, params.top_p * 1.00001),
        typical=min(1.0, params.typical * 1.00001),
        eta=params.eta * 0.99999,
        top_h=min(1.0, params.top_h * 1.00001),
        mirostat=params.mirostat * 1.00001,
    )


def by_definition(rows: HeadRows, params: DrawParams, position: int, history: list[int]) -> int:
    """The token as the whole row gives it, by the oracle."""
    return sampling.draw(rows, 0, params, position, history)


@pytest.mark.parametrize("block", every(4, range(4)))
def test_the_list_and_the_whole_row_give_the_same_token(block: int) -> None:
    """4 x 1,000 rows with ties; a list of 16 alone, the list with the row, the row as a complete list."""
    rng = np.random.default_rng(block)
    decided = 0
    for position in range(1_000):
        logits = random_logits(rng, 120)
        params = random_params(rng)
        history = rng.integers(0, 120, size=rng.integers(0, 30)).tolist()
        at = float(rng.choice([1.0, head_temperature(params)]))
        whole = by_definition(head(logits, K, full=True, temperature=at), params, position, history)
        assert draw(head(logits, 120, full=True, temperature=at), 0, params, position, history) == whole, (
            params
        )
        assert draw(head(logits, K, full=True, temperature=at), 0, params, position, history) == whole, params
        assert whole in distribution(logits.tolist(), loosened(params), history)
        try:
            short = draw(head(logits, K, full=False, temperature=at), 0, params, position, history)
        except BackendError:
            assert needs_logits(params, K)
            continue
        assert short == whole, params
        decided += 1
    assert 300 < decided < 800  # the comparison above really took place, and really had hard cases


def test_the_list_and_the_whole_row_agree_on_a_real_vocabulary() -> None:
    """Large rows take the paths that leave out most of the vocabulary."""
    rng = np.random.default_rng(7)
    settings = [
        DrawParams(temperature=1.0),
        DrawParams(temperature=0.3),
        DrawParams(temperature=0.8, top_k=5_000),
        DrawParams(temperature=1.0, top_p=0.9),
        DrawParams(temperature=0.7, min_p=0.01),
        DrawParams(temperature=1.2, top_n_sigma=1.5),
        DrawParams(temperature=0.7, top_k=20, top_p=0.8, repetition_penalty=1.1),
    ]
    size = 20_000
    for position, params in enumerate(settings * 4):
        logits = random_logits(rng, size)
        order = np.lexsort((np.arange(size), -logits))
        lse = np.array([np.logaddexp.reduce(logits.astype(np.float64))], np.float32)
        rows = [
            HeadRows(logits[order[:k]][None], order[:k][None].astype(np.int32), lse, lse, logits[None])
            for k in (64, size)
        ]
        history = rng.integers(0, size, 500).tolist()
        whole = by_definition(rows[0], params, position, history)
        assert [draw(r, 0, params, position, history) for r in rows] == [whole, whole], params


@settings(max_examples=300)
@given(
    st.integers(0, 1 << 30),
    st.floats(0.1, 10.0),
    st.floats(0.01, 1.0),
    st.floats(0.0, 1.0),
    st.integers(0, 99),
)
def test_a_list_decides_as_the_whole_row_does(
    seed: int, temperature: float, top_p: float, min_p: float, position: int
) -> None:
    logits = random_logits(np.random.default_rng(seed), 200)
    params = DrawParams(temperature=temperature, top_p=top_p, min_p=min_p, seed=seed)
    at = head_temperature(params)
    whole = by_definition(head(logits, K, full=True, temperature=at), params, position, [])
    assert draw(head(logits, 200, full=True, temperature=at), 0, params, position, []) == whole
    assert draw(head(logits, K, full=True, temperature=at), 0, params, position, []) == whole
    assert whole in distribution(
        logits.tolist(), replace(params, top_p=min(1.0, top_p * 1.00001), min_p=min_p * 0.99999)
    )
    try:
        assert draw(head(logits, K, full=False, temperature=at), 0, params, position, []) == whole
    except BackendError:
        assert top_p_needs_more(logits, params) or min_p == 0.0 or min_p_needs_more(logits, params)


CUTS = [
    {
        name: value
        for name, value in zip(("top_k", "top_p", "min_p", "top_n_sigma"), values, strict=True)
        if value
    }
    for values in product((0, 1, 3, 40), (0, 0.3, 0.95, 0.9999), (0, 0.02, 1.0), (0, 1.5))
    if any(values)
]


@pytest.mark.parametrize("penalty", [1.0, 0.9, 1.2])
def test_every_combination_of_cuts_draws_as_defined(penalty: float) -> None:
    """Lists that decide and lists that do not."""
    rng = np.random.default_rng(int(penalty * 10))
    decided = Counter[bool]()
    for position, (cuts, temperature) in enumerate(product(CUTS, (0.3, 0.8, 1.7))):
        logits = random_logits(rng, 150)
        params = DrawParams(temperature=temperature, repetition_penalty=penalty, seed=position, **cuts)
        history = rng.integers(0, 150, 20).tolist()
        for k, at in ((24, temperature), (24, 1.0), (150, temperature)):
            rows = head(logits, k, full=True, temperature=at)
            expected = by_definition(rows, params, position, history)
            assert draw(rows, 0, params, position, history) == expected, params
            try:
                short = draw(replace(rows, logits=None), 0, params, position, history)
            except BackendError:
                decided[False] += 1
                continue
            decided[True] += 1
            assert short == expected, params
    assert min(decided.values()) > 100


def top_p_needs_more(logits: np.ndarray, params: DrawParams) -> bool:
    weights = np.sort(np.exp((logits.astype(np.float64) - logits.max()) / params.temperature))[::-1]
    return bool(weights[:K].sum() < params.top_p * 1.0001 * weights.sum())


def min_p_needs_more(logits: np.ndarray, params: DrawParams) -> bool:
    weights = np.sort(np.exp((logits.astype(np.float64) - logits.max()) / params.temperature))[::-1]
    return bool(weights[K - 1] >= params.min_p * 0.9999)


def test_at_their_temperature_sums_need_no_row() -> None:
    """Nucleus sampling is decided from the list; it was not when the head added up at temperature 1."""
    logits = np.concatenate([np.arange(K), np.full(500, -9.0)]).astype(np.float32)
    params = DrawParams(temperature=0.8, top_p=0.95)
    assert head_temperature(params) == 0.8
    warm = [draw(head(logits, K, full=False, temperature=0.8), 0, params, t, []) for t in range(99)]
    assert warm == [draw(head(logits, K, full=True, temperature=0.8), 0, params, t, []) for t in range(99)]
    with pytest.raises(BackendError, match="whole logits rows"):
        draw(head(logits, K, full=False), 0, params, 0, [])


@pytest.mark.parametrize("temperature", [0.0, 0.01, 99.0])
def test_temperatures_that_float32_would_blur_are_left_to_the_row(temperature: float) -> None:
    assert head_temperature(DrawParams(temperature=temperature)) == 1.0


@settings(max_examples=300)
@given(LOGITS, ANY_PARAMS, HISTORY, st.integers(0, 10_000))
def test_a_drawn_token_is_in_the_support(
    logits: list[float], params: DrawParams, history: list[int], position: int
) -> None:
    token = draw(head(np.array(logits), 5, full=True), 0, params, position, history)
    loose = replace(
        params,
        top_p=min(1.0, params.top_p * 1.00001),
        min_p=params.min_p * 0.99999,
        top_n_sigma=params.top_n_sigma * 1.00001,
    )
    assert token in distribution(logits, loose, history)


@given(LOGITS, HISTORY, st.floats(0.5, 2.0))
def test_greedy_is_the_first_of_the_penalised_order(
    logits: list[float], history: list[int], penalty: float
) -> None:
    params = DrawParams(repetition_penalty=penalty)
    rows = head(np.array(logits), 5, full=True)
    assert {draw(rows, 0, params, 3, history)} == set(distribution(logits, params, history))


def test_greedy_breaks_ties_by_id_and_needs_no_noise() -> None:
    rows = head(np.array([1.0, 5.0, 5.0, 2.0]), 2, full=False)
    assert {draw(rows, 0, DrawParams(seed=s), t, []) for s in range(5) for t in range(5)} == {1}


def test_the_same_seed_and_position_reproduce() -> None:
    logits = np.random.default_rng(0).normal(size=200)
    rows = head(logits, 64, full=True)
    params = DrawParams(temperature=1.0, seed=5)
    first = [draw(rows, 0, params, t, []) for t in range(200)]
    assert [draw(rows, 0, params, t, []) for t in reversed(range(200))][::-1] == first
    other = [draw(rows, 0, replace(params, seed=6), t, []) for t in range(200)]
    assert other != first


def test_the_row_index_selects_the_row() -> None:
    logits = np.array([[1.0, 9.0, 0.0], [9.0, 1.0, 0.0]], dtype=np.float32)
    ids = np.array([[1, 0, 2], [0, 1, 2]], dtype=np.int32)
    values = np.take_along_axis(logits, ids.astype(np.int64), 1)
    rows = HeadRows(values, ids, logits[:, 0], logits[:, 0], logits)
    cold = DrawParams(temperature=0.01)
    for params in (DrawParams(), cold, DrawParams(repetition_penalty=1.01)):
        assert [draw(rows, r, params, 0, [2]) for r in (0, 1)] == [1, 0]


def test_what_cannot_be_decided_is_refused() -> None:
    rows = head(np.zeros(100), 4, full=False)
    for params in (DrawParams(temperature=1.0), DrawParams(temperature=1.0, top_k=5)):
        with pytest.raises(BackendError, match="whole logits rows"):
            draw(rows, 0, params, 0, [])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_broken_logits_are_refused(bad: float) -> None:
    rows = head(np.array([1.0, 2.0]), 2, full=True)
    rows.values[0, 0] = bad
    with pytest.raises(BackendError, match="best logit"):
        draw(rows, 0, DrawParams(), 0, [])
    rows = head(np.array([1.0, 2.0]), 2, full=True)
    assert rows.logits is not None
    rows.logits[0, 1] = np.nan
    with pytest.raises(BackendError, match="not numbers"):
        draw(rows, 0, DrawParams(temperature=1.0), 0, [])


def test_excluded_tokens_are_never_drawn() -> None:
    logits = np.array([0.0, -np.inf, 0.0, -np.inf], dtype=np.float32)
    rows = HeadRows(
        np.array([[0, 0, -np.inf, -np.inf]], np.float32), np.array([[0, 2, 1, 3]], np.int32),
        np.log(np.array([2.0], np.float32)), np.log(np.array([2.0], np.float32)), logits[None],
    )  # fmt: skip
    for params in (DrawParams(temperature=1.0), DrawParams(temperature=1.0, top_p=0.999, top_k=3)):
        assert {draw(rows, 0, params, t, []) for t in range(200)} == {0, 2}


def test_extreme_temperatures_stay_finite() -> None:
    rows = head(np.array([1.0, 30.0, -30.0]), 3, full=True)
    assert {draw(rows, 0, DrawParams(temperature=1e-300), t, []) for t in range(50)} == {1}
    hot = [draw(rows, 0, DrawParams(temperature=1e300), t, []) for t in range(300)]
    assert min(hot.count(v) for v in range(3)) > 60
