from __future__ import annotations

import itertools
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.core.tree import DraftTree
from edgedec.draft import Lookup


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
    tokens = [1, 2, 3, 4, 50, 9, 3, 4, 60, 9, 3, 4, 60, 8, 1, 2, 3, 4]
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


def test_memory_stays_below_what_it_says() -> None:
    lookup = Lookup(capacity=1000)
    generator = random.Random(1)
    lookup.begin([], 0)
    for _ in range(50):
        lookup.commit([generator.randrange(100) for _ in range(100)])
        assert len(lookup._log) <= 1000
        assert len(lookup._before) == len(lookup._log)
    assert lookup.nbytes() == 4 * (2 * 1000 + 32768)
    lookup.commit([1, 2, 3, 4, 5, 1, 2])
    assert first_path(lookup.propose(2)) == [3, 4]
