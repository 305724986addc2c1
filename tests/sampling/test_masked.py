"""Draws under a mask: p_masked = norm(p * mask), cut by the warpers behind it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from edgedec.core.errors import BackendError, UsageError
from edgedec.core_lib.needs import needs_logits
from edgedec.sampling import DrawParams
from tests.fixtures.nightly import every
from tests.sampling.drawing import Mask, draw
from tests.sampling.support import chi_square_p, distribution, head
from tests.sampling.test_distribution import CONFIGURATIONS, DRAWS, HISTORY, REJECT, logits_for

K = 12


def among(logits: np.ndarray, ids: list[int], params: DrawParams, history: list[int]) -> dict[int, float]:
    """The distribution of the allowed tokens, as if there were no others."""
    order = sorted(ids)
    place = {id: at for at, id in enumerate(order)}
    bias = tuple((place[id], value) for id, value in params.logit_bias if id in place)
    inner = distribution(
        [float(logits[id]) for id in order],
        replace(params, logit_bias=bias),
        [place[id] for id in history if id in place],
    )
    return {order[at]: prob for at, prob in inner.items()}


@pytest.mark.parametrize("index", every(2, range(len(CONFIGURATIONS))), ids=map(str, CONFIGURATIONS))
def test_draws_have_the_distribution_of_the_masked_softmax(index: int) -> None:
    params, logits = CONFIGURATIONS[index], logits_for(index)
    ids = sorted(np.random.default_rng(index).choice(logits.size, logits.size // 2, replace=False).tolist())
    rows = {full: head(logits, K, full=True, temperature=full) for full in (1.0, params.temperature)}
    mask = Mask(ids, logits.size)
    at = rows[params.temperature]
    drawn = Counter(draw(at, 0, params, position, HISTORY, mask) for position in range(DRAWS // 2))
    drawn += Counter(
        draw(rows[1.0], 0, replace(params, seed=1 + seed), 77, HISTORY, mask) for seed in range(DRAWS // 2)
    )
    assert chi_square_p(drawn, among(logits, ids, params, HISTORY)) > REJECT


@pytest.mark.parametrize("params", [DrawParams(), DrawParams(temperature=0.8)], ids=["greedy", "uncut"])
def test_no_mask_is_made_where_the_winner_of_all_is_allowed(params: DrawParams) -> None:
    logits = logits_for(3)
    rows = head(logits, K, full=True)
    for position in range(50):
        winner = draw(rows, 0, params, position, [])
        mask = Mask([winner, 0], logits.size)
        assert draw(rows, 0, params, position, [], mask) == winner
        assert mask.made == 0
        others = Mask([id for id in range(logits.size) if id != winner], logits.size)
        assert draw(rows, 0, params, position, [], others) != winner
        assert others.made <= 1


def test_where_much_is_allowed_tokens_are_asked_for_one_by_one() -> None:
    """A mask takes long in a string; top-k of a list whose tokens are nearly all allowed needs none."""
    params = DrawParams(temperature=0.8, top_k=8, seed=2)
    for index in range(4):
        logits = logits_for(index)
        rows = head(logits, K, full=True)
        mask = Mask([id for id in range(logits.size) if id != int(rows.ids[0, 4])], logits.size)
        assert draw(rows, 0, params, 5, [], mask) in among(logits, sorted(mask.ids), params, [])
        assert mask.made == 0


class Broken(Mask):
    """A grammar that fails."""

    def __init__(self, size: int, at: str) -> None:
        super().__init__([0], size)
        self._at = at

    def permits(self, token: int) -> bool:
        if self._at == "permits":
            raise KeyError("permits")
        return super().permits(token)

    def bits(self) -> np.ndarray:
        if self._at == "bits":
            raise KeyError("bits")
        return np.zeros(1, np.uint8) if self._at == "short" else super().bits()


@pytest.mark.parametrize("params", [DrawParams(), DrawParams(temperature=1.0, top_p=0.9, seed=3)], ids=str)
@pytest.mark.parametrize(("at", "error"), [("permits", KeyError), ("bits", KeyError), ("short", ValueError)])
def test_an_error_of_the_grammar_comes_out_of_the_draw(
    params: DrawParams, at: str, error: type[Exception]
) -> None:
    logits = np.linspace(0.0, 9.0, 40)
    with pytest.raises(error, match="mask of 8 bits" if at == "short" else at):
        draw(head(logits, K, full=True), 0, params, 0, [], Broken(40, at))


def test_a_mask_needs_whole_rows() -> None:
    assert needs_logits(DrawParams(), masked=True)
    assert not needs_logits(DrawParams())
    rows = head(logits_for(0), 4, full=False)
    outside = [id for id in range(20) if id not in rows.ids[0]]
    with pytest.raises(BackendError, match="whole logits rows"):
        draw(rows, 0, DrawParams(), 0, [], Mask(outside, 20))


def test_a_mask_that_allows_nothing_is_an_error() -> None:
    rows = head(logits_for(0), 4, full=True)
    with pytest.raises(UsageError, match="no token"):
        draw(rows, 0, DrawParams(), 0, [], Mask([], 20))
    banned = DrawParams(logit_bias={3: -100})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no token"):
        draw(rows, 0, banned, 0, [], Mask([3], 20))
    assert draw(rows, 0, banned, 0, [], Mask([3, 4], 20)) == 4
