"""The core draws the tokens of the oracle, whatever it looks at: bit for bit."""

from __future__ import annotations

from ctypes import byref
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.core.errors import BackendError, UsageError
from edgedec.core.rows import HeadRows
from edgedec.core.tree import EMPTY
from edgedec.core_lib.library import error_of, function
from edgedec.core_lib.needs import drawing_bytes, head_temperature, needs_logits
from edgedec.core_lib.params import params_struct
from edgedec.sampling import DrawParams
from tests.reference.settings import uncut
from tests.sampling.drawing import (
    Drawing,
    Mask,
    compare_numbers,
    core,
    draw,
    handle_of,
    head_of,
    oracle,
    random_drawing,
    row_of,
    without_row,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # NumPy's, where logits are -inf or overflow


def compare(case: Drawing) -> bool:
    """Compare with the oracle; whether the head's list alone was enough, too."""
    expected = oracle(case)
    assert core(case) == expected, case.params.summary()
    short = core(without_row(case))
    if short.error and short.error[:1] == (9,):
        assert needs_logits(case.params, case.rows.ids.shape[1], masked=case.allowed is not None)
        return False
    assert short == expected, case.params.summary()
    return True


@pytest.mark.parametrize("seed", range(8))
def test_random_draws_are_the_oracles(seed: int) -> None:
    decided = sum(compare(random_drawing(np.random.default_rng([seed, part]))) for part in range(100))
    assert 5 < decided < 95  # lists that are enough, and lists that are not


def test_a_token_is_drawn_where_the_list_cannot_tell_what_survives() -> None:
    """Top-p alone would need the whole row, and there is none; min-p leaves one token of the list."""
    rows = head_of(np.array([3.0, 1.0, 0.5, 0.4, 0.3, 0.2], np.float32), 4, 1.0, full=True)
    params = DrawParams(temperature=1.0, top_p=0.99, min_p=0.5, seed=4)
    assert compare(Drawing(rows, params, 0, 6))


@settings(max_examples=300)
@given(
    st.integers(0, 1 << 30), st.floats(0.1, 10.0), st.just(1.0) | st.floats(0.01, 1.0), st.floats(0.0, 1.0)
)
def test_a_row_is_asked_for_where_the_list_leaves_the_cuts_open_and_nowhere_else(
    seed: int, temperature: float, top_p: float, min_p: float
) -> None:
    logits = (np.random.default_rng(seed).standard_normal(200) * (0.5 + seed % 5)).astype(np.float32)
    params = DrawParams(temperature=temperature, top_p=top_p, min_p=min_p, seed=seed)
    case = Drawing(head_of(logits, 16, head_temperature(params), full=True), params, vocabulary=200)
    weights = np.sort(np.exp((logits.astype(np.float64) - logits.max()) / temperature))[::-1]
    listed = weights[:16].sum() >= top_p * 1.0001 * weights.sum() or weights[15] < min_p * 0.9999
    assert compare(case) or not listed


def test_at_their_temperature_sums_need_no_row() -> None:
    """Nucleus sampling is decided from the list; it was not when the head added up at temperature 1."""
    logits = np.concatenate([np.arange(16), np.full(500, -9.0)]).astype(np.float32)
    params = DrawParams(temperature=0.8, top_p=0.95)
    assert head_temperature(params) == 0.8
    assert compare(Drawing(head_of(logits, 16, 0.8, full=True), params, vocabulary=516))
    with pytest.raises(BackendError, match="whole logits rows"):
        draw(head_of(logits, 16, 1.0, full=False), 0, params, 0, [])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_a_hundred_thousand_random_draws_are_the_oracles(seed: int) -> None:
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
    """The settings for long rows; those of ``slow`` take the oracle longer."""
    marked = [
        pytest.param(values, marks=pytest.mark.slow if at in slow else ()) for at, values in enumerate(LONG)
    ]
    return pytest.mark.parametrize("values", marked, ids=lambda values: ",".join(values) or "uncut")


@long_rows(slow=range(4, len(LONG) - 2))
def test_long_rows_are_drawn_as_the_oracles(values: dict[str, Any]) -> None:
    rng = np.random.default_rng(7)
    logits = (rng.standard_normal(262_144) * 1.5).astype(np.float32)
    params = DrawParams(**{"temperature": 1.0, "seed": 11, **values})
    rows = head_of(logits, 64, head_temperature(params), full=True)
    tokens = tuple(rng.integers(0, logits.size, 300).tolist())
    case = Drawing(rows, params, 300, logits.size, (*tokens, 5, 9, 5), 253)
    compare(case)
    some = rng.choice(logits.size, 5000, replace=False).tolist()
    compare(replace(case, allowed=Mask(some, logits.size)))


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
def test_the_edges_of_every_setting_are_the_oracles(
    logits: np.ndarray, values: dict[str, Any], k: int
) -> None:
    params = DrawParams(**{"temperature": 0.8, **values})
    rows = head_of(logits.astype(np.float32), k, head_temperature(params), full=True)
    compare(Drawing(rows, params, 3, 12, (7, 7, 3), 3))
    compare(Drawing(rows, params, 3, 12, (7, 7, 3), 3, allowed=Mask([2, 5, 7, 11], 12)))


@pytest.mark.parametrize("best", [np.nan, np.inf, -np.inf])
def test_a_best_logit_that_is_no_number_is_refused(best: float) -> None:
    rows = head_of(np.zeros(8, np.float32), 4, 1.0, full=True)
    rows.values[0, 0] = best
    for temperature in (0.0, 1.0):
        case = Drawing(rows, DrawParams(temperature=temperature), 0, 8)
        assert (
            core(case).error
            == oracle(case).error
            == (9, f"the model returned {best} as its best logit", "verify the bundle")
        )


@pytest.mark.parametrize(
    "values", [{}, {"top_p": 0.99}, {"repetition_penalty": 1.5}, {"typical": 0.99}, {"top_n_sigma": 2}]
)
def test_logits_that_are_no_numbers_are_refused(values: dict[str, Any]) -> None:
    rows = head_of(np.arange(2000, dtype=np.float32) / 1e4, 4, 1.0, full=True)
    assert rows.logits is not None
    rows.logits[0, 50] = np.nan
    case = Drawing(rows, DrawParams(temperature=1.0, **values), 0, 2000, (1,), 1)
    assert core(case).error == (9, "the model returned logits that are not numbers", "verify the bundle")
    assert core(replace(case, allowed=Mask([1500], 2000))).error == core(case).error == oracle(case).error


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
        core(replace(case, tokens=(*case.tokens, -1, -(2**31), 2**31 - 1), said=case.said))


WRONG: list[dict[str, Any]] = [
    {"temperature": -0.5}, {"temperature": np.inf}, {"temperature": np.nan}, {"top_k": -3}, {"top_p": 0.0},
    {"top_p": 1.5}, {"min_p": -1e-7}, {"top_n_sigma": -1e22}, {"typical": 0.0}, {"eta": 1.0},
    {"top_h": -123456.789}, {"mirostat": -2.5e-300}, {"mirostat_eta": 0.0}, {"edt": -np.inf},
    {"repetition_penalty": 0.0}, {"frequency_penalty": 2.000001}, {"presence_penalty": -1e16},
    {"logit_bias": ((3, 100.5),)}, {"logit_bias": ((-4, 1.0),)}, {"logit_bias": ((5, 1.0), (5, 2.0))},
]  # fmt: skip


@pytest.mark.parametrize("values", WRONG, ids=repr)
def test_settings_outside_their_range_are_refused_in_the_same_words(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        DrawParams(**values)
    params = object.__new__(DrawParams)
    for one in fields(DrawParams):
        object.__setattr__(params, one.name, values.get(one.name, getattr(DrawParams(), one.name)))
    assert function("check")(byref(params_struct.__wrapped__(params))) == -2
    error = error_of(2)
    assert (error.message, error.hint) == (caught.value.message, caught.value.hint)
    with pytest.raises(UsageError, match=r"cannot be|twice"):
        handle_of(Drawing(head_of(np.zeros(8, np.float32), 4, 1.0, full=True), params, 0, 8))


def test_exp_and_log_and_noise_have_the_bits_of_the_oracle() -> None:
    compare_numbers()


def test_needs_are_as_the_settings_say() -> None:
    assert not needs_logits(DrawParams(temperature=0.7, top_k=64), 64)
    assert needs_logits(DrawParams(temperature=0.7, top_k=65), 64)
    assert needs_logits(DrawParams(temperature=0.7, top_k=64), 64, logprobs=True)
    assert not needs_logits(DrawParams(temperature=1.0, top_k=64), 64, logprobs=True)
    assert needs_logits(DrawParams(), 64, masked=True)
    assert needs_logits(DrawParams(frequency_penalty=0.1), 64)
    assert [head_temperature(DrawParams(temperature=t)) for t in (0.0, 0.05, 0.1, 10.0, 10.1)] == [
        1,
        1,
        0.1,
        10,
        1,
    ]
    assert head_temperature(DrawParams(temperature=0.7, edt=0.3)) == 1.0


@long_rows(slow=range(8, len(LONG)))
@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
def test_the_lists_of_draws_fit_what_is_planned_for_them(values: dict[str, Any], masked: bool) -> None:
    rng = np.random.default_rng(5)
    logits = (rng.standard_normal(262_144) * 0.01).astype(np.float32)
    params = DrawParams(**{"temperature": 1.0, **values})
    rows = head_of(logits, 64, head_temperature(params), full=True)
    mask = None
    if masked:
        best = set(rows.ids[0].tolist())
        mask = Mask([id for id in range(logits.size) if id not in best], logits.size)
    handle = handle_of(Drawing(rows, params, 0, logits.size, tuple(range(100)), 50, allowed=mask))
    handle.verdict_on(EMPTY, rows, 0)
    assert handle.drawn_bytes <= drawing_bytes(params, masked=masked) * logits.size + 65_536
    assert not masked or uncut(params) or params.greedy or handle.drawn_bytes > 8 * logits.size


@pytest.mark.parametrize("name", ["values", "ids", "logsumexp", "entropy"])
def test_rows_of_other_shapes_or_types_are_refused(name: str) -> None:
    rows = head_of(np.arange(9, dtype=np.float32), 4, 1.0, full=True)
    for wrong in (getattr(rows, name).astype(np.float64), getattr(rows, name)[..., :0]):
        with pytest.raises(ValueError, match="shapes or types"):
            core(Drawing(replace(rows, **{name: wrong}), DrawParams(), 0, 9))


def test_more_rows_than_nodes_are_refused() -> None:
    rows = head_of(np.arange(9, dtype=np.float32), 4, 1.0, full=False)
    two = HeadRows(
        *(np.concatenate([one, one]) for one in (rows.values, rows.ids, rows.logsumexp, rows.entropy))
    )
    assert core(Drawing(two, DrawParams(), 0, 9)).error is not None
    assert core(Drawing(row_of(two, 1), DrawParams(), 0, 9)).error is None
