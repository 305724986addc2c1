"""The choice between a trimmed and a full head."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from ctypes import c_int32
from itertools import pairwise

import numpy as np
import pytest

from edgedec.core_lib.binding import LONG, POINTER, REAL, Functions
from edgedec.core_lib.promises import break_even
from edgedec.draft import trimmed
from edgedec.metrics.mbsu import Weights, mbsu

KEPT = np.array([1, 4, 5, 9], dtype=np.int64)
INSIDE, OUTSIDE = [1, 4, 5, 9], [0, 2, 7, 30]
RARE = itertools.count(1000)
"""Ids that no text has had yet."""


CALLS = Functions(
    "edgedec_core_trimmed_",
    begin=(None, POINTER),
    follow=(None, POINTER, POINTER, LONG),
    outside=(REAL, POINTER),
)


class TrimmedHead(trimmed.TrimmedHead):
    """With the calls of the drafter that has it."""

    def begin(self) -> None:
        """Start another text. Its tokens so far are no replies and do not count."""
        CALLS.begin(self.handle)

    def follow(self, text: Sequence[int]) -> None:
        """Note the committed ``text``, in the drafter's ids; those since the last call count."""
        CALLS.follow(self.handle, (c_int32 * len(text))(*text), len(text))

    @property
    def outside(self) -> float:
        """Recent rate of tokens outside the subset."""
        return float(CALLS.outside(self.handle))


def rare(count: int) -> list[int]:
    return list(itertools.islice(RARE, count))


def followed(head: TrimmedHead, text: list[int], tokens: list[int], rounds: int) -> None:
    for _ in range(rounds):
        text += tokens
        head.follow(text)


def test_it_drafts_with_the_subset_while_the_text_stays_inside() -> None:
    head, text = TrimmedHead(KEPT, 0.2), [9, 9, 9]
    head.begin()
    followed(head, text, INSIDE, 50)
    assert head.keep is not None
    assert head.keep.tolist() == KEPT.tolist()
    assert head.outside == 0.0


def test_it_leaves_the_subset_with_the_text_and_returns_with_it() -> None:
    head, text = TrimmedHead(KEPT, 0.2), [1]
    head.begin()
    followed(head, text, rare(12), 1)  # names may be rare for a moment
    assert head.keep is not None
    followed(head, text, rare(40), 1)
    assert head.keep is None
    before = head.outside
    followed(head, text, INSIDE, 4)
    assert head.outside < before
    assert head.keep is None
    followed(head, text, INSIDE, 40)
    assert head.keep is not None


def test_ids_of_the_text_are_kept_until_another_begins() -> None:
    head, text = TrimmedHead(KEPT, 0.9), [30, 1, 30]
    head.begin()
    head.follow(text)
    assert head.keep is not None
    assert head.keep.tolist() == [1, 4, 5, 9, 30]
    followed(head, text, [2, 9, 40], 1)
    assert head.keep.tolist() == [1, 2, 4, 5, 9, 30, 40]
    rate = head.outside
    followed(head, text, [2, 40], 1)
    assert head.outside < rate  # they are inside now
    head.begin()
    assert head.keep is not None
    assert head.keep.tolist() == KEPT.tolist()


def test_of_too_many_ids_of_a_text_the_latest_are_kept() -> None:
    head, text = TrimmedHead(KEPT, 1.0), [1]
    head.begin()
    head.follow(text)
    for _ in range(7):
        latest = rare(300)
        followed(head, text, latest, 1)
        assert head.keep is not None
        assert {*KEPT.tolist(), *latest} <= set(head.keep.tolist())
        assert (np.diff(head.keep) > 0).all()
        assert head.keep.nbytes <= head.nbytes()
    followed(head, text, rare(5000), 1)
    assert head.keep is not None
    assert 8 * head.keep.size < head.nbytes()


def test_near_the_bound_it_does_not_waver() -> None:
    head, text, seen = TrimmedHead(KEPT, 0.25), [1], []
    head.begin()
    for _ in range(200):
        followed(head, text, [*rare(1), 1, 4, 5], 1)  # a quarter is outside
        seen.append(head.keep is None)
    assert sum(first != second for first, second in pairwise(seen)) <= 1


def test_a_prompt_does_not_count_and_neither_does_a_text_that_is_taken_back() -> None:
    head = TrimmedHead(KEPT, 0.01)
    head.begin()
    head.follow(OUTSIDE * 20)
    assert head.outside == 0.0
    head.follow(OUTSIDE)
    assert head.outside == 0.0
    head.follow([*OUTSIDE, *rare(1)])
    assert head.outside > 0.0
    assert head.keep is None


def test_ids_beyond_the_last_kept_one_are_outside() -> None:
    head = TrimmedHead(KEPT, 0.5)
    head.begin()
    head.follow([1])
    head.follow([1, 9])
    assert head.outside == 0.0
    head.follow([1, 9, 10_000])
    assert head.outside > 0.0


@pytest.mark.parametrize(("step", "trimmed"), [(0.3, 0.2), (0.7, 0.4), (0.1, 0.09)])
def test_at_the_break_even_both_heads_gain_alike(step: float, trimmed: float) -> None:
    outside = break_even(step, trimmed)
    gains = []
    for rate, cost in ((0.7, step), (0.7 * (1 - outside / 2), trimmed)):
        efficiency = sum(rate**depth for depth in range(5))
        gains.append(mbsu(efficiency, 4, Weights(cost), Weights(1.0)).streamed)
    assert gains[0] == pytest.approx(gains[1])
    assert 0.0 < outside < 0.8


def test_the_more_a_trim_saves_the_more_it_may_miss() -> None:
    bounds = [break_even(0.5, 0.5 * left) for left in (0.9, 0.5, 0.2)]
    assert bounds == sorted(bounds)
    assert break_even(0.5, 0.5) == pytest.approx(0.0, abs=1e-6)


def test_conversations_share_ids_in_arrays_that_stay_as_they_are() -> None:
    first = TrimmedHead(KEPT, 1.0).again(shared=True)
    other = first.beside()
    for head in (first, other):
        head.begin()
    first.follow([1, 7])
    held = other.keep
    assert held is not None
    assert held.tolist() == [1, 4, 5, 7, 9]
    other.follow([30])
    assert held.tolist() == [1, 4, 5, 7, 9]
    assert first.keep is other.keep
    assert first.keep is not None
    assert first.keep.tolist() == [1, 4, 5, 7, 9, 30]
    first.begin()  # the other text goes on
    assert other.keep is not None
    assert 30 in other.keep
