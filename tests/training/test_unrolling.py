"""Rows of unrolled chains see and agree as chains of decoding do."""

from __future__ import annotations

import numpy as np
import pytest

from edgedec.training.unrolling import agreement, no_agreement, visible


def test_a_row_sees_committed_rows_and_its_own_later_steps() -> None:
    sees = visible(4, 2)
    assert sees.shape == (4, 12)
    assert sees[2].tolist() == [
        *[True, True, True, False],  # step 0 of rows 0, 1 and 2
        *[False, False, True, False],  # its own step 1
        *[False, False, True, False],  # its own step 2
    ]


def hits(*rows: str) -> np.ndarray:
    return np.array([[char == "x" for char in row] for row in rows])


def test_a_guess_counts_only_after_right_ones() -> None:
    found = agreement(hits("xx-", "-xx", "x-x", "xxx"))
    assert found.reached == (4, 3, 2)
    assert found.agreed == (3, 2, 1)
    assert found.rates == pytest.approx([3 / 4, 2 / 3, 1 / 2])


def test_rounds_follow_each_other_as_in_decoding() -> None:
    # Round 1 commits 3 tokens of row 0, round 2 begins at row 3, which commits 1, round 3 at row 4.
    found = agreement(hits("xx-", "---", "---", "---", "x--", "---"))
    assert found.rounds == 3
    assert found.tokens == 6
    assert found.tokens_a_pass == 2.0


def test_agreements_add_up_from_none() -> None:
    one = agreement(hits("xx-", "-xx"))
    total = no_agreement(3) + one + one
    assert total.reached == (4, 2, 2)
    assert total.rates == one.rates
    assert no_agreement(2).rates == [0.0, 0.0]
    assert no_agreement(2).tokens_a_pass == 0.0
    assert agreement(np.zeros((0, 3), dtype=bool)).tokens == 0
