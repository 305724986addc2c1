from __future__ import annotations

import itertools
import random
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.core.tree import DraftTree
from edgedec.draft import Lookup, lookup_ahead


def first_path(tree: DraftTree) -> list[int]:
    """Tokens of the most probable chain."""
    path: list[int] = []
    node = -1
    while children := tree.children(node):
        node = max(children, key=lambda child: tree.probs[child])
        path.append(tree.tokens[node])
    return path


def given_tokens(tokens: list[int], **settings: int) -> Lookup:
    lookup = Lookup(**settings)
    lookup.begin(tokens, 0)
    return lookup


def test_what_followed_before_is_proposed() -> None:
    assert first_path(given_tokens([5, 6, 7, 8, 9, 5, 6]).propose(3)) == [7, 8, 9]


def test_without_a_match_nothing_is_proposed() -> None:
    assert len(given_tokens([1, 2, 3, 4]).propose(8)) == 0
    assert len(given_tokens([]).propose(8)) == 0
    assert len(given_tokens([1]).propose(8)) == 0


def test_a_single_common_token_is_no_match() -> None:
    assert len(given_tokens([1, 2, 3, 2]).propose(8)) == 0


def test_the_longer_match_weighs_more() -> None:
    tokens = [1, 2, 3, 4, 50, 9, 3, 4, 60, 8, 1, 2, 3, 4]
    tree = given_tokens(tokens).propose(30)
    after = {tree.tokens[child]: tree.probs[child] for child in tree.children(-1)}
    assert set(after) == {50, 60}
    assert after[50] > after[60]


def test_a_repetition_is_continued_beyond_the_end_of_the_match() -> None:
    """The match overlaps what it is matched with: 1 2 1 2 goes on as 1 2."""
    assert first_path(given_tokens([1, 2, 1, 2]).propose(4))[:2] == [1, 2]


def test_earlier_sequences_are_remembered_and_never_run_into_the_next() -> None:
    lookup = given_tokens(list(range(100)))
    lookup.begin([200, 98, 99], 0)
    assert len(lookup.propose(4)) == 0  # after 98, 99 the first sequence ended
    lookup.begin([40, 41], 0)
    assert first_path(lookup.propose(3)) == [42, 43, 44]


def test_a_match_does_not_begin_in_an_earlier_sequence() -> None:
    lookup = given_tokens([7, *range(100)])
    lookup.begin([7], 0)
    assert len(lookup.propose(4)) == 0


def test_tokens_cut_off_are_forgotten() -> None:
    lookup = given_tokens([1, 2, 3, 4])
    lookup.begin([1, 2, 9, 1, 2], 2)
    assert first_path(lookup.propose(1)) == [9]


@settings(max_examples=60, deadline=None)
@given(
    turns=st.lists(st.tuples(st.integers(0, 40), st.lists(st.integers(0, 3), max_size=30)), max_size=8),
    limit=st.integers(1, 15),
)
def test_proposals_stay_in_bounds_and_are_things_seen(turns: list[tuple[int, list[int]]], limit: int) -> None:
    lookup = Lookup(capacity=64)
    sequence: list[int] = []
    pairs: set[tuple[int, int]] = set()
    for kept, more in turns:
        kept = min(kept, len(sequence))
        sequence = [*sequence[:kept], *more]
        lookup.begin(sequence, kept)
        pairs |= set(itertools.pairwise(sequence))
        tree = lookup.propose(limit)
        assert len(tree) <= limit
        for node, token in enumerate(tree.tokens):
            parent = tree.parents[node]
            before = sequence[-1] if parent == -1 else tree.tokens[parent]
            assert (before, token) in pairs
            assert 0.0 < tree.probs[node] < 1.0


def test_a_match_in_this_sequence_weighs_more_than_one_before() -> None:
    lookup = given_tokens([1, 2, 3, *range(10, 90)])
    lookup.begin([1, 2, 4, 1, 2], 0)
    tree = lookup.propose(8)
    after = {tree.tokens[child]: tree.probs[child] for child in tree.children(-1)}
    assert after[4] > 2 * after[3] > 0


def test_nothing_below_the_floor() -> None:
    lookup = given_tokens([1, 2, 3, 9, 1, 2, 4, 9, 1, 2, 4, 8, 1, 2])
    assert set(lookup.propose(15).tokens) > set(lookup.propose(15, 0.3).tokens) == {4}


def test_probabilities_come_true_where_text_repeats() -> None:
    """Phrases that come again, among noise: of the first tokens proposed with p, about p are right."""
    generator = random.Random(5)
    phrases = [[generator.randrange(200) for _ in range(12)] for _ in range(6)]
    lookup = given_tokens([])
    said = right = 0.0
    for _ in range(400):
        phrase = generator.choice(phrases)
        for token in phrase[: generator.randint(2, 12)]:
            tree = lookup.propose(8, 0.3)
            for child in tree.children(-1):
                said += tree.probs[child]
                right += tree.tokens[child] == token
            lookup.commit([token])
    assert right > 1000
    assert said == pytest.approx(right, rel=0.15)


def test_of_more_tokens_than_it_can_hold_the_latest_are_known() -> None:
    lookup = Lookup(capacity=20_000)
    held, generator = lookup.nbytes(), random.Random(1)
    for turn in range(40):
        lookup.begin([turn], 0)
        lookup.commit([generator.randrange(100) for _ in range(1000)])
        assert len(lookup.saved()) <= 4 * 20_000
    lookup.commit([101, 102, 103, 104, 105, 101, 102])
    assert first_path(lookup.propose(2)) == [103, 104]
    assert lookup.nbytes() == held


def test_a_sequence_longer_than_the_memory_can_still_be_cut() -> None:
    lookup = Lookup(capacity=200)
    tokens = [*range(1000)]
    lookup.begin(tokens, 0)
    tokens = [*tokens[:980], 950, 951]
    lookup.begin(tokens, 980)
    assert first_path(lookup.propose(2)) == [952, 953]
    lookup.commit([990, 7, 950, 951, 990])
    assert first_path(lookup.propose(2)) == [7, 950]


def test_a_sequence_whose_shared_tokens_are_forgotten_can_be_cut_again() -> None:
    lookup = Lookup(capacity=64)
    tokens = [*range(1000, 1070)]
    lookup.begin(tokens, 0)  # the first 38 of them are forgotten
    tokens = [*tokens[:20], *range(40)]
    lookup.begin(tokens, 20)
    tokens = [*tokens[:30], 7, 8]
    lookup.begin(tokens, 30)
    assert first_path(lookup.propose(2)) == [9, 7]


def test_what_was_saved_is_known_again() -> None:
    lookup = Lookup()
    lookup.restore(given_tokens([1, 2, 3, 4]).saved(), 5)
    lookup.begin([9, 2, 3], 0)
    assert first_path(lookup.propose(2)) == [4]
    lookup.begin([9, 4, 9], 0)
    assert len(lookup.propose(2)) == 0


@pytest.mark.parametrize("data", [b"123", array("i", [1, 2, 500]).tobytes(), array("i", [1, -2]).tobytes()])
def test_what_another_saved_is_refused(data: bytes) -> None:
    lookup = given_tokens([1, 2, 3, 1, 2])
    with pytest.raises(ValueError, match="token"):
        lookup.restore(data, 500)
    assert first_path(lookup.propose(1)) == [3]


def test_what_lookup_sees_ahead_is_of_these_tokens_alone() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 9, 9, 1, 2, 3]
    assert lookup_ahead(text, 3) == [4, 5, 6]
    assert lookup_ahead(text, 16)[:4] == [4, 5, 6, 7]
    assert lookup_ahead([1, 2, 3], 16) == []
    assert lookup_ahead([], 16) == []
    assert lookup_ahead([4], 16) == []
