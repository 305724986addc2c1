from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedec.eviction.speckv import NEIGHBOURS, best


@given(st.data(), st.integers(1, 40), st.integers(0, 5))
def test_the_best_are_those_of_the_definition(data: st.DataObject, slots: int, seed: int) -> None:
    """For each head by itself; scores of few values, so that many are equal."""
    count = data.draw(st.integers(0, slots))
    scores = np.random.default_rng(seed).integers(0, 4, (2, 3, slots)).astype(np.float32)
    found = best(scores, count)
    assert found.shape == (2, 3, count)
    for layer, head in np.ndindex(2, 3):
        row = scores[layer, head].tolist()
        around = NEIGHBOURS // 2
        pooled = [max(row[max(at - around, 0) : at + around + 1]) for at in range(slots)]
        order = sorted(range(slots), key=lambda at: (-pooled[at], at))
        assert found[layer, head].tolist() == sorted(order[:count])


@pytest.mark.parametrize("at", [0, 20, 39])
def test_who_stands_beside_what_is_looked_at_stays(at: int) -> None:
    scores = np.zeros((1, 1, 40), dtype=np.float32)
    scores[0, 0, at] = 0.5
    kept = best(scores, NEIGHBOURS)[0, 0].tolist()
    assert set(range(max(at - NEIGHBOURS // 2, 0), min(at + NEIGHBOURS // 2 + 1, 40))) <= set(kept)
