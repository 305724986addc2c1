from __future__ import annotations

import math
import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.core.rows import HeadRows
from edgedec.core.tree import ROOT, DraftTree
from edgedec.draft import Recycling

WIDTH, LEVELS = 4, 16  # of the answers to a context, and of their probabilities


def answers(*rows: dict[int, float]) -> HeadRows:
    """Head rows in which these tokens have these probabilities, and padding has next to none."""
    ids = [[*row, *range(90, 90 + WIDTH)][:WIDTH] for row in rows]
    values = [[*map(math.log, row.values()), *[-20.0] * WIDTH][:WIDTH] for row in rows]
    zeros = np.zeros(len(rows), dtype=np.float32)
    return HeadRows(np.array(values, dtype=np.float32), np.array(ids, dtype=np.int32), zeros, zeros)


def after(tree: DraftTree, node: int = ROOT) -> dict[int, float]:
    return {tree.tokens[child]: tree.probs[child] for child in tree.children(node)}


def taught(prompt: list[int], *rounds: tuple[dict[int, float], int]) -> Recycling:
    """A drafter that saw an answer and what was committed, round by round."""
    drafter = Recycling(memory=1 << 14)
    drafter.begin(prompt, 0)
    for answer, token in rounds:
        drafter.observe(DraftTree(), answers(answer))
        drafter.commit([token])
    return drafter


def test_knows_nothing_at_first() -> None:
    assert len(taught([]).propose(4)) == 0
    assert len(taught([1]).propose(4)) == 0


def test_proposes_what_the_target_thought_of_here_before() -> None:
    drafter = taught([1], ({2: 0.6, 5: 0.3}, 2), ({1: 0.9}, 1))
    tree = drafter.propose(12, 0.05)
    assert set(after(tree)) == {2, 5}
    assert after(tree)[2] > after(tree)[5]
    assert after(tree, tree.tokens.index(2)) == {1: pytest.approx(after(tree, tree.tokens.index(2))[1])}


def test_a_drafter_counts_as_taught_once_a_table_is_restored() -> None:
    drafter = Recycling(memory=1 << 14)
    with pytest.raises(ValueError, match="not the answers of a table"):
        drafter.restore(b"junk", 100)
    assert not drafter.pretrained
    drafter.restore(taught([1], ({2: 0.6}, 2)).saved(), 100)
    assert drafter.pretrained


def test_learns_from_rejected_drafts() -> None:
    drafter = taught([1])
    drafter.observe(
        DraftTree((2, 7), (-1, -1), (0.5, 0.5), ("x", "x")), answers({2: 0.9}, {3: 0.9}, {8: 0.9})
    )
    drafter.commit([2, 7])
    assert set(after(drafter.propose(1))) == {8}


def test_answers_to_two_tokens_come_before_answers_to_one() -> None:
    drafter = taught([1, 2], ({3: 0.9}, 9), ({2: 0.9}, 2), ({4: 0.9}, 1), ({2: 0.9}, 2))
    assert set(after(drafter.propose(8, 0.05))) == {3}


def test_tokens_of_a_prompt_answer_those_before() -> None:
    drafter = Recycling(memory=1 << 14)
    drafter.begin([1, 2, 3, 1], 0)
    assert set(after(drafter.propose(1))) == {2}
    drafter.begin([1, 2, 3, 1, 4, 1], 4)
    assert set(after(drafter.propose(2))) == {4, 2}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 12), st.floats(0.0, 0.5), st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_proposals_stay_in_bounds(limit: int, floor: float, prompt: list[int]) -> None:
    drafter = taught(prompt, ({1: 0.5, 2: 0.3}, 1), ({0: 0.5}, 0))
    tree = drafter.propose(limit, floor)
    assert len(tree) <= limit
    for node in range(len(tree)):
        assert 0.0 < math.prod(tree.probs[step] for step in tree.path(node)) <= 1.0
        assert math.prod(tree.probs[step] for step in tree.path(node)) > floor
        assert len(set(after(tree, tree.parents[node]))) == len(tree.children(tree.parents[node]))


def test_probabilities_come_true_on_a_markov_source() -> None:
    """Of the first tokens proposed with probability p, a share of p is right."""
    generator = random.Random(3)
    chain = [dict(zip(generator.sample(range(50), 3), (0.7, 0.2, 0.1), strict=True)) for _ in range(50)]
    drafter = taught([0])
    token, said, right = 0, [0.0] * 5, [0] * 5
    for turn in range(3000):
        following = generator.choices(list(chain[token]), list(chain[token].values()))[0]
        if turn > 500:
            for guess, prob in after(drafter.propose(8, 0.01)).items():
                said[int(prob * 5)] += prob
                right[int(prob * 5)] += guess == following
        drafter.observe(DraftTree(), answers(chain[token]))
        drafter.commit([following])
        token = following
    assert sum(right) > 2000
    for expected, happened in zip(said, right, strict=True):
        assert happened == pytest.approx(expected, abs=4 * math.sqrt(expected) + 30)


def test_a_full_table_keeps_what_came_last() -> None:
    drafter = Recycling(memory=128)  # four places
    for token in range(50):
        drafter.begin([token, 100 + token], 0)
    known = {}
    for token in range(50):
        drafter.begin([token], 0)
        known[token] = drafter.propose(1).tokens
    kept = [token for token, answer in known.items() if answer]
    assert 49 in kept
    assert len(kept) <= 4
    assert all(known[token] == (100 + token,) for token in kept)


def test_rows_that_do_not_belong_to_the_tree_are_not_learned() -> None:
    drafter = taught([1])
    drafter.observe(DraftTree((2,), (-1,), (0.5,), ("x",)), answers({2: 0.9}))
    drafter.commit([1])
    assert len(drafter.propose(4)) == 0


def test_of_two_passes_before_tokens_are_committed_the_second_counts() -> None:
    drafter = taught([1])
    drafter.observe(DraftTree(), answers({2: 0.9}))
    drafter.observe(DraftTree(), answers({3: 0.9}))
    drafter.commit([1])
    assert set(after(drafter.propose(8, 0.05))) == {3}


def test_files_of_earlier_versions_are_read() -> None:
    """Bits and width; tags, tokens, levels and marks of all places; the first bits of a key are its place."""
    mask = (1 << 64) - 1
    mixed = (0x9E3779B97F4A7C15 + 7 * 0xC2B2AE3D27D4EB4F) & mask  # -1, 7: what followed 7
    key = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9 & mask
    place, bits = key >> 60, 4
    tags, tokens, levels = [0] * 16, [-1] * (WIDTH * 16), bytearray(WIDTH * 16)
    tags[place] = key & 0xFFFFFFFF | 1
    tokens[WIDTH * place : WIDTH * place + 2] = 9, 8
    levels[WIDTH * place] = 12
    numbers = struct.pack("<2I16I64i", bits, WIDTH, *tags, *tokens)
    drafter = Recycling(memory=16 * 32)
    drafter.restore(numbers + levels + bytes(16), 10)
    assert drafter.saved() == numbers + levels + bytes(16)
    drafter.begin([7], 0)
    tree = drafter.propose(8)
    assert tree.tokens == (9, 8)
    assert tree.probs == pytest.approx((0.35 * 0.6 * 12.5 / 16, 0.35 * 0.6 * 0.5 / 16))


def test_what_was_saved_is_known_again() -> None:
    drafter = taught([1], ({2: 0.9}, 2), ({1: 0.9}, 1))
    other = Recycling(memory=1 << 14)
    other.restore(drafter.saved(), 100)
    other.begin([7, 1], 0)
    assert set(after(other.propose(1))) == {2}


@pytest.mark.parametrize("memory", [1 << 13, 1 << 10, 32])
def test_a_smaller_table_takes_the_surest_answers_of_a_larger_one(memory: int) -> None:
    large, small, empty = (Recycling(memory=size) for size in (1 << 14, memory, memory))
    for token in range(10, 400):
        large.begin([token], 1)
        large.observe(DraftTree(), answers({token + 1: 0.9 if token % 10 == 0 else 0.3}))
        large.commit([])
    small.restore(large.saved(), 500)
    assert len(small.saved()) == len(empty.saved())
    sure = unsure = 0
    for token in range(10, 400):
        small.begin([token], 1)
        first = small.propose(1).tokens
        assert first in ((), (token + 1,))
        sure, unsure = sure + (bool(first) and token % 10 == 0), unsure + (bool(first) and token % 10 != 0)
    assert 1 <= sure + unsure <= memory // 32
    assert sure / 39 > unsure / 351


@pytest.mark.parametrize("change", ["shorter", "longer", "other size", "vocabulary", "level"])
def test_what_another_saved_is_refused(change: str) -> None:
    drafter = taught([1], ({2: 0.9}, 2), ({1: 0.9}, 1))
    data = drafter.saved()
    data = {"shorter": data[:-1], "longer": data + b"0", "other size": Recycling(memory=1 << 10).saved()}.get(
        change, data
    )
    if change == "level":
        rows = drafter.nbytes() // (4 + 5 * WIDTH + 1)
        data = data[: -2 * rows] + bytes([LEVELS]) * rows + data[-rows:]
    other = taught([1], ({3: 0.9}, 1))
    with pytest.raises(ValueError, match="answers"):
        other.restore(data, 2 if change == "vocabulary" else 100)
    assert 3 in after(other.propose(4))
