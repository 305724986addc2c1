from __future__ import annotations

import math
import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.core.tree import ROOT, DraftTree
from edgedec.core.types import HeadRows
from edgedec.draft import Recycling
from edgedec.draft.answers import LEVELS, WIDTH, AnswerTable, key_of


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
        drafter.learn(DraftTree(), answers(answer))
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


def test_learns_from_rejected_drafts() -> None:
    drafter = taught([1])
    drafter.learn(DraftTree((2, 7), (-1, -1), (0.5, 0.5), ("x", "x")), answers({2: 0.9}, {3: 0.9}, {8: 0.9}))
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
        drafter.learn(DraftTree(), answers(chain[token]))
        drafter.commit([following])
        token = following
    assert sum(right) > 2000
    for expected, happened in zip(said, right, strict=True):
        assert happened == pytest.approx(expected, abs=4 * math.sqrt(expected) + 30)


def test_memory_is_what_it_says_and_stays_that() -> None:
    tracemalloc.start()
    try:
        drafter = Recycling(memory=1 << 20)
        held = tracemalloc.get_traced_memory()[0]
        assert 1 << 19 < drafter.nbytes() <= 1 << 20
        assert held == pytest.approx(drafter.nbytes(), rel=0.1)
        generator = random.Random(1)
        drafter.begin([generator.randrange(100_000) for _ in range(30_000)], 0)
        for _ in range(300):
            drafter.learn(DraftTree(), answers({generator.randrange(100_000): 0.5}))
            drafter.commit([generator.randrange(100_000)])
        assert tracemalloc.get_traced_memory()[0] - held < 50_000
    finally:
        tracemalloc.stop()


def test_a_full_table_keeps_what_came_last() -> None:
    table = AnswerTable(100)  # four places
    for token in range(50):
        table.store(key_of(-1, token), [token] * WIDTH, bytes([1] * WIDTH), 0)
    kept = [token for token in range(50) if table.find(key_of(-1, token))]
    assert 49 in kept
    assert len(kept) <= 4
    assert all((found := table.find(key_of(-1, token))) and found[0] == [token] * WIDTH for token in kept)


def test_what_was_saved_is_known_again() -> None:
    drafter = taught([1], ({2: 0.9}, 2), ({1: 0.9}, 1))
    other = Recycling(memory=1 << 14)
    other.restore(drafter.saved(), 100)
    other.begin([7, 1], 0)
    assert set(after(other.propose(1))) == {2}


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
