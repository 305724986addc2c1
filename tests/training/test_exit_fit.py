"""The fit of an exit: it finds a linear relation between rows, of the rank it may have, and no more."""

from __future__ import annotations

import numpy as np
import pytest

from edgedec.draft.exit_adapter import ExitAdapter, normalised
from edgedec.training.exit_fit import ExitSums, head_metric

WIDTH = 24


def rows(seed: int, count: int = 400) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, WIDTH)).astype(np.float32)


def related(early: np.ndarray, rank: int) -> np.ndarray:
    dice = np.random.default_rng(rank)
    down, up = dice.standard_normal((rank, WIDTH)), dice.standard_normal((WIDTH, rank))
    return np.asarray(normalised(early) + normalised(early) @ down.T @ up.T / WIDTH, np.float32)


def fitted(rank: int, *, of: int = 3, metric: np.ndarray | None = None) -> tuple[ExitAdapter, float]:
    """The adapter of ``rank`` for a relation of rank ``of``, and its mean square error on other rows."""
    sums = ExitSums(WIDTH)
    for seed in range(4):
        sums.add(rows(seed), related(rows(seed), of))
    adapter = sums.adapter(5, rank, 1e-4, np.eye(WIDTH) if metric is None else metric)
    x, y = rows(9), related(rows(9), of)
    return adapter, float(np.mean((normalised(adapter(x)) - normalised(y)) ** 2))


def test_a_relation_is_found_by_its_rank_and_in_part_by_a_lower_one() -> None:
    errors = [fitted(rank)[1] for rank in (1, 2, 3, 8)]
    x, y = rows(9), related(rows(9), 3)
    untrained = float(np.mean((normalised(x) - normalised(y)) ** 2))
    assert untrained > errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.02 * untrained
    assert errors[3] == pytest.approx(errors[2], rel=0.3)


def test_matrices_have_the_rank_asked_for_and_at_most_the_width() -> None:
    for rank, expected in ((2, 2), (100, WIDTH)):
        adapter, _ = fitted(rank)
        assert adapter.down.shape == (expected, WIDTH)
        assert adapter.up.shape == (WIDTH, expected)
        assert adapter.nbytes == 8 * expected * WIDTH


def test_a_low_rank_is_spent_on_what_the_head_sees() -> None:
    """A head that reads the first half of a row's elements only."""
    seen = np.diag([1.0] * (WIDTH // 2) + [1e-6] * (WIDTH // 2))
    x, y = rows(9), related(rows(9), 6)

    def error(adapter: ExitAdapter) -> float:
        return float(np.mean((adapter(x) - y)[:, : WIDTH // 2] ** 2))

    assert error(fitted(2, of=6, metric=seen)[0]) < 0.9 * error(fitted(2, of=6)[0])


def test_the_same_rows_give_the_same_matrices() -> None:
    first, second = fitted(4)[0], fitted(4)[0]
    assert first.down.tobytes() == second.down.tobytes()
    assert first.up.tobytes() == second.up.tobytes()


def test_no_rows_fit_nothing() -> None:
    with pytest.raises(ValueError, match="no rows"):
        ExitSums(WIDTH).adapter(5, 2, 0.01, np.eye(WIDTH))


def test_the_metric_counts_errors_of_logits() -> None:
    head, gains = rows(1, 50), np.linspace(0.5, 2.0, WIDTH, dtype=np.float32)
    error = rows(2, 1)[0]
    logits = (head * gains) @ error
    assert error @ head_metric(head, gains) @ error == pytest.approx(float(np.mean(logits**2)), rel=1e-4)


def test_a_row_of_zeros_or_huge_numbers_stays_finite() -> None:
    adapter, _ = fitted(2)
    extreme = np.stack([np.zeros(WIDTH), np.full(WIDTH, 1e30)]).astype(np.float32)
    assert np.isfinite(adapter(extreme)).all()
