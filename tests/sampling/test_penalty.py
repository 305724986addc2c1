"""The repetition penalty: what it costs, and that its sums decide what the whole row would."""

from __future__ import annotations

import time

import numpy as np
import pytest

from edgedec.backends.head_rows import head_rows
from edgedec.core.rows import HeadRows
from edgedec.sampling import DrawParams, Occurred, draw, head_temperature, portable
from edgedec.sampling.candidates import Row

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
def test_the_corrected_sum_bounds_that_of_the_whole_row(params: DrawParams) -> None:
    for seed in range(50):
        rows, history = text_like(seed, params)
        row = Row(rows, 0, params, history)
        highest = float(row.unsorted().values.max())  # type: ignore[union-attr]
        low, high = row.total_bounds(highest)  # type: ignore[misc]
        total = row.total(highest)
        assert total is not None
        assert low <= total <= high
        own = portable.exp_one(float(rows.logsumexp[0]) - highest / params.temperature)
        assert high - low <= 1e-4 * own


@pytest.mark.parametrize("params", PARAMS)
def test_the_token_is_that_of_the_sum_of_the_whole_row(
    params: DrawParams, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = [
        draw(*text_like(seed, params)[:1], 0, params, seed, text_like(seed, params)[1]) for seed in range(60)
    ]
    monkeypatch.setattr(Row, "_corrected", lambda self: None)
    for seed, token in enumerate(drawn):
        rows, history = text_like(seed, params)
        assert draw(rows, 0, params, seed, history) == token


def test_a_mass_within_the_error_is_decided_by_the_whole_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds so wide that they never tell: every cut is that of the exact sum, and no other."""
    params = PARAMS[0]
    expected = [draw(*_arguments(seed, params)) for seed in range(40)]
    monkeypatch.setattr("edgedec.sampling.candidates._SUM_ERROR", (0.9, 0.0))
    assert [draw(*_arguments(seed, params)) for seed in range(40)] == expected


def _arguments(seed: int, params: DrawParams) -> tuple[HeadRows, int, DrawParams, int, list[int]]:
    rows, history = text_like(seed, params)
    return rows, 0, params, seed, history


@pytest.mark.parametrize("params", [*PARAMS[:3], DrawParams(repetition_penalty=1.2)])
def test_mostly_no_weight_of_the_whole_row_is_computed(
    params: DrawParams, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole: list[int] = []
    total = Row.total
    monkeypatch.setattr(Row, "total", lambda self, highest: whole.append(1) or total(self, highest))
    for seed in range(100):
        rows, history = text_like(seed, params)
        draw(rows, 0, params, seed, Occurred(history))
    assert len(whole) <= 10


def test_ids_are_kept_in_the_order_of_their_first_occurrence() -> None:
    tokens = np.random.default_rng(1).integers(0, 900, 3000).tolist()
    seen = Occurred(tokens[:5])
    for token in tokens[5:]:
        seen.add(token)
    assert seen.ids().tolist() == list(dict.fromkeys(tokens)) == Occurred(tokens).ids().tolist()
    view = seen.after([tokens[0], 901, 902, 901])
    assert view.ids().tolist() == [*dict.fromkeys(tokens), 901, 902]
    assert 901 in view
    assert 901 not in seen
    assert seen.after([tokens[3]]) is seen
    with pytest.raises(TypeError):
        view.add(1)


def test_a_long_history_costs_no_more_than_a_short_one() -> None:
    """Per token; as ids that occurred, not as a copy of the sequence."""
    params = DrawParams(repetition_penalty=1.1)
    rows, _ = text_like(1, params)
    took = {}
    for length in (100, 100_000):
        seen = Occurred(np.random.default_rng(2).integers(0, VOCAB, length).tolist())
        best = 1.0
        for _ in range(200):
            began = time.perf_counter()
            draw(rows, 0, params, 5, seen.after([3, 4]))
            best = min(best, time.perf_counter() - began)
        took[length] = best
    assert took[100_000] < 3 * took[100] + 50e-6
