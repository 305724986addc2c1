"""Keyed draws have the warped distribution: chi-square over positions and seeds catches wrong samplers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from edgedec.core.tree import EMPTY
from edgedec.sampling import DrawParams
from tests.fixtures.nightly import every
from tests.reference import noise
from tests.sampling.drawing import Drawing, draw, handle_of
from tests.sampling.support import chi_square_p, distribution, head, upper_gamma

DRAWS = 2_000
REJECT = 1e-4
HISTORY = [0, 3, 5, 5, 11]

CONFIGURATIONS = [
    DrawParams(temperature=1.0),
    DrawParams(temperature=0.5),
    DrawParams(temperature=2.0),
    DrawParams(temperature=0.05),
    DrawParams(temperature=1.0, top_k=1),
    DrawParams(temperature=1.0, top_k=2),
    DrawParams(temperature=1.0, top_k=7),
    DrawParams(temperature=0.7, top_k=12),
    DrawParams(temperature=1.0, top_p=0.9),
    DrawParams(temperature=1.0, top_p=0.5),
    DrawParams(temperature=0.7, top_p=0.95),
    DrawParams(temperature=1.5, top_p=0.3),
    DrawParams(temperature=1.0, min_p=0.1),
    DrawParams(temperature=0.6, min_p=0.02),
    DrawParams(temperature=1.0, top_n_sigma=1.0),
    DrawParams(temperature=1.5, top_n_sigma=2.0),
    DrawParams(temperature=1.0, repetition_penalty=1.3),
    DrawParams(temperature=1.0, repetition_penalty=0.7),
    DrawParams(temperature=0.8, top_k=10, top_p=0.9),
    DrawParams(temperature=0.7, top_k=8, top_p=0.8, repetition_penalty=1.1),
    DrawParams(temperature=0.8, top_k=10, top_p=0.9, min_p=0.05),
    DrawParams(temperature=1.2, top_n_sigma=1.5, top_k=9, top_p=0.95, min_p=0.02, repetition_penalty=1.2),
]
Sampler = Callable[[np.ndarray, DrawParams, int], int]


def logits_for(index: int) -> np.ndarray:
    size = 20 + 3 * (index % 5)
    return (np.random.default_rng(index).normal(size=size) * 1.5).astype(np.float32)


def keyed(logits: np.ndarray, params: DrawParams, position: int) -> int:
    return draw(head(logits, 12, full=True), 0, params, position, HISTORY)


def p_value(sampler: Sampler, logits: np.ndarray, params: DrawParams) -> float:
    """Half of the draws walk along positions under one seed, half along seeds at one position."""
    along_positions = Counter(sampler(logits, params, t) for t in range(DRAWS // 2))
    along_seeds = Counter(sampler(logits, replace(params, seed=1 + s), 77) for s in range(DRAWS // 2))
    return chi_square_p(along_positions + along_seeds, distribution(logits.tolist(), params, HISTORY))


@pytest.mark.parametrize("index", every(2, range(len(CONFIGURATIONS))))
def test_draws_follow_the_warped_distribution(index: int) -> None:
    assert p_value(keyed, logits_for(index), CONFIGURATIONS[index]) > REJECT


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(CONFIGURATIONS)))
def test_two_hundred_thousand_draws_follow_it(index: int) -> None:
    params, logits = CONFIGURATIONS[index], logits_for(index)
    rows = head(logits, 12, full=True)
    case = Drawing(rows, params, 0, logits.size, tuple(HISTORY), len(HISTORY))
    handle = handle_of(case)
    counts = Counter(handle.verify(EMPTY, rows, position).tokens[0] for position in range(200_000))
    assert chi_square_p(counts, distribution(logits.tolist(), params, HISTORY)) > REJECT


def unweighted(logits: np.ndarray, params: DrawParams, position: int) -> int:
    return int(noise.exponential(params.seed, position, np.arange(logits.size)).argmin())


def without_temperature(logits: np.ndarray, params: DrawParams, position: int) -> int:
    return keyed(logits, replace(params, temperature=1.0), position)


def uniform_noise(logits: np.ndarray, params: DrawParams, position: int) -> int:
    u = noise.uniform(params.seed, position, np.arange(logits.size))
    return int((logits / params.temperature + u).argmax())


def one_token_too_many(logits: np.ndarray, params: DrawParams, position: int) -> int:
    return keyed(logits, replace(params, top_k=params.top_k + 1), position)


def one_noise_for_pairs(logits: np.ndarray, params: DrawParams, position: int) -> int:
    ids = np.arange(logits.size)
    times = noise.exponential(params.seed, position, ids // 2) / noise.exp(logits.astype(float))
    return int(times.argmin())


def stuck(logits: np.ndarray, params: DrawParams, position: int) -> int:
    return keyed(logits, replace(params, seed=0), 3)


WRONG = [
    (unweighted, DrawParams(temperature=1.0)),
    (without_temperature, DrawParams(temperature=0.8)),
    (uniform_noise, DrawParams(temperature=1.0)),
    (one_token_too_many, DrawParams(temperature=1.0, top_k=6)),
    (one_noise_for_pairs, DrawParams(temperature=1.0)),
    (stuck, DrawParams(temperature=1.0)),
]


@pytest.mark.parametrize(("sampler", "params"), WRONG)
def test_a_wrong_sampler_is_caught(sampler: Sampler, params: DrawParams) -> None:
    assert p_value(sampler, logits_for(1), params) < REJECT


def joint_p_value(sampler: Sampler, logits: np.ndarray, params: DrawParams, apart: int) -> float:
    """Pairs of tokens drawn ``apart`` positions from each other against the product distribution."""
    single = distribution(logits.tolist(), params)
    size = logits.size
    pairs = Counter(
        sampler(logits, params, 2 * apart * n) * size + sampler(logits, params, 2 * apart * n + apart)
        for n in range(2_500)
    )
    return chi_square_p(pairs, {a * size + b: single[a] * single[b] for a in single for b in single})


@pytest.mark.parametrize("apart", [1, 2, 64, 4096])
def test_draws_at_different_positions_are_independent(apart: int) -> None:
    logits = np.array([1.0, 0.5, 0.0, -0.5, 0.8], dtype=np.float32)
    params = DrawParams(temperature=1.0, seed=11)
    assert joint_p_value(keyed_without_history, logits, params, apart) > REJECT


def test_dependence_between_positions_is_caught() -> None:
    def every_other(logits: np.ndarray, params: DrawParams, position: int) -> int:
        return keyed_without_history(logits, params, position // 2)

    logits = np.array([1.0, 0.5, 0.0, -0.5, 0.8], dtype=np.float32)
    assert joint_p_value(every_other, logits, DrawParams(temperature=1.0, seed=11), 1) < REJECT


def keyed_without_history(logits: np.ndarray, params: DrawParams, position: int) -> int:
    return draw(head(logits, logits.size, full=True), 0, params, position, [])


def test_neighbouring_seeds_are_independent() -> None:
    logits = np.array([1.0, 0.5, 0.0, -0.5, 0.8], dtype=np.float32)
    params = DrawParams(temperature=1.0)
    single = distribution(logits.tolist(), params)
    pairs = Counter(
        5 * keyed_without_history(logits, replace(params, seed=2 * n), 9)
        + keyed_without_history(logits, replace(params, seed=2 * n + 1), 9)
        for n in range(2_500)
    )
    assert chi_square_p(pairs, {5 * a + b: single[a] * single[b] for a in single for b in single}) > REJECT


def test_the_p_value_helper_knows_tabulated_values() -> None:
    assert upper_gamma(0.5, 3.841459 / 2) == pytest.approx(0.05, rel=1e-5)
    assert upper_gamma(5.0, 18.307038 / 2) == pytest.approx(0.05, rel=1e-5)
    assert upper_gamma(50.0, 124.342113 / 2) == pytest.approx(0.05, rel=1e-5)
    assert chi_square_p({0: 10, 9: 1}, {0: 1.0}) == 0.0
