"""Drafts from an index of files, against a search through all of it."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.core.tree import DraftTree
from edgedec.draft.own_files import SEPARATOR, OwnFiles, Tokens, order_of
from tests.draft.test_lookup import first_path

VOCAB = 1000
TEXTS = st.lists(st.lists(st.integers(0, 4), max_size=30), max_size=5)


def joined(texts: list[list[int]]) -> Tokens:
    return np.array([token for text in texts for token in (*text, SEPARATOR)], np.int32)


def indexed(*texts: list[int]) -> OwnFiles:
    tokens = joined([*texts])
    return OwnFiles(tokens, order_of(tokens), VOCAB)


def after(drafter: OwnFiles, tokens: list[int], limit: int = 15) -> DraftTree:
    drafter.begin(tokens, 0)
    return drafter.propose(limit)


def agreement(tokens: list[int], place: int, latest: list[int]) -> int:
    """Tokens before a place that are the latest ones, 32 at most."""
    length = 0
    while length < min(place, len(latest), 32) and tokens[place - 1 - length] == latest[-1 - length]:
        length += 1
    return length


@given(TEXTS)
def test_places_are_in_the_order_of_the_tokens_before_them(texts: list[list[int]]) -> None:
    tokens = joined(texts)
    known = tokens.tolist()
    before = [known[max(0, place - 32) : place][::-1] for place in range(len(known))]
    assert order_of(tokens).tolist() == sorted(range(len(known)), key=lambda place: (before[place], place))


@given(TEXTS, st.lists(st.integers(0, 4), max_size=40))
@settings(max_examples=300)
def test_the_longest_matches_are_drafted(texts: list[list[int]], latest: list[int]) -> None:
    tokens = joined(texts).tolist()
    lengths = {place: agreement(tokens, place, latest) for place in range(len(tokens))}
    longest = max(lengths.values(), default=0)
    follow = {tokens[place] for place, length in lengths.items() if length == longest} - {SEPARATOR}
    tree = after(indexed(*texts), latest)
    first = {tree.tokens[child] for child in tree.children(-1)}
    if not longest:
        assert first == set()
    elif list(lengths.values()).count(longest) <= 24:
        assert follow <= first
    assert all(0 <= token <= 4 for token in tree.tokens)


@given(st.lists(st.lists(st.integers(0, 3), max_size=40), max_size=8), TEXTS)
def test_it_is_the_same_whether_tokens_come_one_by_one(
    parts: list[list[int]], texts: list[list[int]]
) -> None:
    slow, quick = indexed(*texts), indexed(*texts)
    slow.begin([], 0)
    for part in parts:
        slow.commit(part)
    assert slow.propose(15) == after(quick, [token for part in parts for token in part])


def test_what_follows_in_a_file_is_drafted_to_its_end() -> None:
    drafter = indexed([9, 1, 2, 3, 4, 5], [6, 7, 8])
    assert first_path(after(drafter, [1, 2])) == [3, 4, 5]
    assert len(after(drafter, [4, 5])) == 0
    assert first_path(after(drafter, [5, 6])) == [7, 8]  # no file goes on with another
    assert len(after(drafter, [10])) == 0


def test_of_many_places_all_parts_of_the_files_count() -> None:
    texts = [[1, 2, 10 + number // 100] for number in range(1000)]
    random.Random(0).shuffle(texts)
    tree = after(indexed(*texts), [1, 2])
    firsts = [tree.tokens[child] for child in tree.children(-1)]
    assert len(firsts) >= 6  # of ten tokens that follow equally often
    often = indexed(*[[1, 2, 3]] * 700, *[[1, 2, 4]] * 300)
    assert first_path(after(often, [1, 2])) == [3]


def test_a_long_match_outweighs_many_short_ones() -> None:
    tree = after(indexed([5, 6, 7, 8, 1, 2, 30], *[[1, 2, 40]] * 50), [5, 6, 7, 8, 1, 2])
    assert first_path(tree)[0] == 30


@pytest.mark.parametrize("limit", [-1, 0, 1, 64, 1 << 40])
def test_limits(limit: int) -> None:
    assert len(after(indexed(list(range(100))), [0, 1], limit)) == max(0, min(limit, 64))


@given(
    st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=1, max_size=60),
    st.randoms(use_true_random=False),
)
@settings(max_examples=300)
def test_any_numbers_may_be_in_an_index(numbers: list[int], draw: random.Random) -> None:
    strange = [*numbers, *(draw.randrange(-2, VOCAB + 2) for _ in range(60))]
    tokens = np.array([draw.choice(strange) for _ in strange], np.int32)
    order = np.array([draw.choice([*strange, draw.randrange(len(strange))]) for _ in strange], np.int32)
    drafter = OwnFiles(tokens, order, VOCAB)
    for _ in range(20):
        drafter.commit([draw.choice(tokens.tolist()), draw.choice(tokens.tolist())])
        tree = drafter.propose(64)
        assert all(0 <= token < VOCAB for token in tree.tokens)
        assert all(0.0 < prob < 1.0 and math.isfinite(prob) for prob in tree.probs)


def test_an_empty_index_drafts_nothing() -> None:
    empty = np.array([], np.int32)
    assert len(after(OwnFiles(empty, order_of(empty), VOCAB), [1, 2, 3])) == 0
    with pytest.raises(ValueError, match="two rows"):
        OwnFiles(empty, np.zeros(3, np.int32), VOCAB)
