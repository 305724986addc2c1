"""The native sampler draws Python's tokens, out of distributions with the same bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgedec.core.errors import UsageError
from edgedec.sampling import DrawParams, head_temperature, needs_logits, portable
from tests.native.drawing import (
    SETTINGS,
    Drawing,
    call,
    compare_numbers,
    head_of,
    native,
    needs,
    python,
    random_drawing,
    random_params,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # NumPy's, where logits are -inf or overflow


def compare(case: Drawing) -> None:
    assert native(case) == python(case), case.params.summary()


@pytest.mark.parametrize("seed", range(8))
def test_random_draws_are_pythons(seed: int) -> None:
    for part in range(100):
        compare(random_drawing(np.random.default_rng([seed, part])))


def test_a_token_is_drawn_where_the_list_cannot_tell_what_survives() -> None:
    """Top-p alone would need the whole row, and there is none; min-p leaves one token of the list."""
    rows = head_of(np.array([3.0, 1.0, 0.5, 0.4, 0.3, 0.2], np.float32), 4, 1.0, full=False)
    params = DrawParams(temperature=1.0, top_p=0.99, min_p=0.5, seed=4)
    case = Drawing(rows, params, 0, 6, 0, (), 0)
    assert native(case).error is None
    compare(case)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_a_hundred_thousand_random_draws_are_pythons(seed: int) -> None:
    for part in range(1000):
        compare(random_drawing(np.random.default_rng([seed, part])))


LONG: list[dict[str, Any]] = [
    {},
    {"top_p": 0.9},
    {"top_p": 0.999, "temperature": 1.5},
    {"min_p": 1e-6},
    {"top_k": 30_000},
    {"top_n_sigma": 2.0},
    {"typical": 0.99},
    {"eta": 1e-6},
    {"top_h": 0.99},
    {"mirostat": 15.0},
    {"repetition_penalty": 1.2, "top_p": 0.95},
    {"frequency_penalty": -1.5, "typical": 0.5, "logit_bias": {0: -100, 262_143: 20}},
    {"temperature": 20.0, "top_p": 0.7},
    {"edt": 1.0, "temperature": 1.2},
    {"temperature": 0.0, "repetition_penalty": 0.5},
]


def long_rows(slow: range) -> Any:
    """The settings for long rows; those of ``slow`` take Python longer."""
    marked = [
        pytest.param(values, marks=pytest.mark.slow if at in slow else ()) for at, values in enumerate(LONG)
    ]
    return pytest.mark.parametrize("values", marked, ids=lambda values: ",".join(values) or "uncut")


@long_rows(slow=range(4, len(LONG) - 2))
def test_long_rows_are_drawn_as_pythons(values: dict[str, Any]) -> None:
    rng = np.random.default_rng(7)
    logits = (rng.standard_normal(262_144) * 1.5).astype(np.float32)
    params = DrawParams(**{"temperature": 1.0, "seed": 11, **values})
    rows = head_of(logits, 64, head_temperature(params), full=True)
    tokens = tuple(rng.integers(0, logits.size, 300).tolist())
    compare(Drawing(rows, params, 300, logits.size, 0, tokens, 250, (5, 9, 5)))


def test_every_row_of_a_pass_is_its_own() -> None:
    rng = np.random.default_rng(3)
    each = [head_of(rng.standard_normal(200).astype(np.float32), 16, 0.7, full=True) for _ in range(3)]
    names = ("values", "ids", "logsumexp", "entropy", "logits")
    rows = replace(each[0], **{name: np.concatenate([getattr(one, name) for one in each]) for name in names})
    several: list[dict[str, Any]] = [{}, {"top_p": 0.8}, {"repetition_penalty": 1.3}, {"typical": 0.4}]
    for values in several:
        for row in range(3):
            compare(Drawing(rows, DrawParams(temperature=0.7, **values), 9, 200, row, (1, 2, 3), 2))


EDGES: list[dict[str, Any]] = [
    {"top_k": 1}, {"top_k": 2**31 - 1}, {"top_p": 1e-300}, {"min_p": 1.0}, {"top_n_sigma": 1e-300},
    {"top_n_sigma": 1e9}, {"typical": 1e-300}, {"eta": 1 - 2**-53}, {"top_h": 1e-300}, {"mirostat": 1e-300},
    {"mirostat": 1e9}, {"edt": 1e9}, {"repetition_penalty": 1e-200}, {"repetition_penalty": 1e300},
    {"temperature": 1e-300}, {"temperature": 1e300}, {"logit_bias": dict.fromkeys(range(12), -100)},
    {"logit_bias": dict.fromkeys(range(11), -100), "top_p": 0.5}, {"logit_bias": {11: 99.0}, "top_k": 3},
    {"logit_bias": {500: 3.0}, "top_p": 0.5}, {"frequency_penalty": 2.0, "min_p": 0.1},
]  # fmt: skip
ROWS = {
    "rising": np.arange(12.0),
    "equal": np.zeros(12),
    "huge": np.linspace(-3e38, 3e38, 12),
    "one": np.where(np.arange(12) == 7, 0.0, -np.inf),
    "apart": np.where(np.arange(12) == 7, 1e5, -1e5),
    "zeros": np.where(np.arange(12) % 2, 0.0, -0.0),
}


@pytest.mark.parametrize("logits", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize(
    "values", EDGES, ids=lambda values: " ".join(f"{n}={v!r:.12}" for n, v in values.items())
)
@pytest.mark.parametrize("k", [1, 4, 12])
def test_the_edges_of_every_setting_are_pythons(logits: np.ndarray, values: dict[str, Any], k: int) -> None:
    params = DrawParams(**{"temperature": 0.8, **values})
    rows = head_of(logits.astype(np.float32), k, head_temperature(params), full=True)
    compare(Drawing(rows, params, 3, 12, 0, (7, 7, 3), 3))
    compare(Drawing(replace(rows, logits=None), params, 3, 12, 0, (7, 7, 3), 3))


@pytest.mark.parametrize("best", [np.nan, np.inf, -np.inf])
def test_a_best_logit_that_is_no_number_is_refused(best: float) -> None:
    rows = head_of(np.zeros(8, np.float32), 4, 1.0, full=True)
    rows.values[0, 0] = best
    for temperature in (0.0, 1.0):
        case = Drawing(rows, DrawParams(temperature=temperature), 0, 8)
        assert native(case).error == python(case).error
        assert native(case).error is not None


@pytest.mark.parametrize(
    "values", [{}, {"top_p": 0.99}, {"repetition_penalty": 1.5}, {"typical": 0.99}, {"top_n_sigma": 2}]
)
def test_logits_that_are_no_numbers_are_refused(values: dict[str, Any]) -> None:
    rows = head_of(np.arange(2000, dtype=np.float32) / 1e4, 4, 1.0, full=True)
    assert rows.logits is not None
    rows.logits[0, 50] = np.nan
    case = Drawing(rows, DrawParams(temperature=1.0, **values), 0, 2000, 0, (1,), 1)
    assert native(case).error == (9, "the model returned logits that are not numbers", "verify the bundle")
    assert native(case).error == python(case).error


def test_lists_and_rows_of_anything_crash_nothing() -> None:
    """Draws of what no model returns: it may be refused, or any token may come of it."""
    rng = np.random.default_rng(8)
    strange = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0, -0.0, 1.0], np.float32)
    for _ in range(300):
        case = random_drawing(rng, 300)
        rows = case.rows
        for values in (
            rows.values,
            rows.logsumexp,
            rows.entropy,
            *([] if rows.logits is None else [rows.logits]),
        ):
            places = rng.random(values.shape) < rng.choice([0.0, 0.1, 0.9])
            values[places] = rng.choice(strange, int(places.sum()))
        rows.ids[:] = np.where(rng.random(rows.ids.shape) < 0.1, rng.choice([-1, 2**31 - 1]), rows.ids)
        native(replace(case, tokens=(*case.tokens, -1, -(2**31), 2**31 - 1), said=case.said))


WRONG: list[dict[str, Any]] = [
    {"temperature": -0.5}, {"temperature": np.inf}, {"temperature": np.nan}, {"top_k": -3}, {"top_p": 0.0},
    {"top_p": 1.5}, {"min_p": -1e-7}, {"top_n_sigma": -1e22}, {"typical": 0.0}, {"eta": 1.0},
    {"top_h": -123456.789}, {"mirostat": -2.5e-300}, {"mirostat_eta": 0.0}, {"edt": -np.inf},
    {"repetition_penalty": 0.0}, {"frequency_penalty": 2.000001}, {"presence_penalty": -1e16},
    {"logit_bias": ((3, 100.5),)}, {"logit_bias": ((-4, 1.0),)}, {"logit_bias": ((5, 1.0), (5, 2.0))},
]  # fmt: skip


@pytest.mark.parametrize("values", WRONG, ids=repr)
def test_settings_outside_their_range_are_refused_in_pythons_words(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        DrawParams(**values)
    params = object.__new__(DrawParams)
    for name in (*SETTINGS, "top_k", "seed", "logit_bias"):
        object.__setattr__(params, name, values.get(name, getattr(DrawParams(), name)))
    rows = head_of(np.zeros(8, np.float32), 4, 1.0, full=True)
    assert native(Drawing(rows, params, 0, 8)).error == (2, caught.value.message, caught.value.hint)


def test_exp_and_log_and_noise_have_pythons_bits() -> None:
    compare_numbers(None)
    assert np.isinf(portable.exp_one(720.0))


def test_needs_are_pythons() -> None:
    rng = np.random.default_rng(1)
    for _ in range(500):
        params = random_params(rng, 300)
        for logprobs in (False, True):
            needed, temperature, _ = needs(params, logprobs=logprobs)
            assert needed == needs_logits(params, 64, logprobs=logprobs)
            assert temperature == head_temperature(params)


@long_rows(slow=range(8, len(LONG)))
def test_the_lists_of_draws_fit_what_is_planned_for_them(values: dict[str, Any]) -> None:
    rng = np.random.default_rng(5)
    logits = (rng.standard_normal(262_144) * 0.01).astype(np.float32)
    params = DrawParams(**{"temperature": 1.0, **values})
    rows = head_of(logits, 64, head_temperature(params), full=True)
    call(None, "drawing_bytes", 1)
    native(Drawing(rows, params, 0, logits.size, 0, tuple(range(100)), 50))
    assert call(None, "drawing_bytes", 0) <= needs(params)[2] * logits.size + 65_536
