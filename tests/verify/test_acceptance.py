"""The rules accept as often as theory says, where it says: docs/verification.md can be believed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference.verification import optimal_rho
from tests.verify.acceptance import RULES, acceptance, synthetic, table, total_variation

ROUNDS = 800
CLOSE = 4 * 0.5 / ROUNDS**0.5
"""Four standard deviations of a share of so many rounds, at most."""


@pytest.mark.parametrize("distance", [0.1, 0.5])
def test_the_shares_are_those_of_theory(distance: float) -> None:
    p, q = synthetic(distance)
    assert total_variation(p, q) == pytest.approx(distance)

    def rate(name: str, k: int) -> float:
        return acceptance(RULES[name], [(p, q)], k, ROUNDS)

    for name in ("rejection", "recursive", "k-SEQ"):
        assert rate(name, 1) == pytest.approx(1 - distance, abs=CLOSE)
    rho = optimal_rho(p, q, 3)
    assert rate("k-SEQ", 3) == pytest.approx(rho * np.minimum(q, p / rho).sum(), abs=CLOSE)
    assert rate("keyed, likeliest", 3) == pytest.approx(p[np.argsort(-q)[:3]].sum(), abs=CLOSE)
    # Gumbel coupling (Daliri et al. 2025): the sum over x of 1 / sum over y of max(p_y / p_x, q_y / q_x).
    coupled = sum(1 / np.maximum(p / a, q / b).sum() for a, b in zip(p, q, strict=True))
    assert rate("keyed, same noise", 1) == pytest.approx(coupled, abs=CLOSE)
    assert coupled >= (1 - distance) / (1 + distance)


def test_the_table_has_a_line_for_every_width() -> None:
    lines = list(table({"close": [synthetic(0.05)]}, 20))
    assert [line.split(" | ")[:3] for line in lines[2:]] == [["| close", "0.05", k] for k in "124"]
