from __future__ import annotations

import numpy as np

from edgedec.core.types import HeadRows
from edgedec.draft import Recycling


def answers(*rows: list[int]) -> HeadRows:
    """Head rows with these ids, best first."""
    ids = np.array(rows, dtype=np.int32)
    zeros = np.zeros(len(rows), dtype=np.float32)
    return HeadRows(np.zeros(ids.shape, dtype=np.float32), ids, zeros, zeros)


def test_knows_nothing_at_first() -> None:
    drafter = Recycling(10, width=2)
    drafter.begin([1, 2], 0)
    assert len(drafter.propose(4)) == 0


def test_proposes_successors_of_successors() -> None:
    drafter = Recycling(10, width=2)
    drafter.begin([1], 0)
    drafter.learn([1, 2], answers([2, 5, 0], [3, 4, 0]))
    tree = drafter.propose(4)
    paths = {tuple(tree.tokens[step] for step in tree.path(node)) for node in range(len(tree))}
    assert paths == {(2,), (5,), (2, 3), (2, 4)}


def test_the_latest_answer_counts() -> None:
    drafter = Recycling(10, width=1)
    drafter.begin([1], 0)
    drafter.learn([1], answers([2]))
    drafter.learn([1], answers([3]))
    assert drafter.propose(1).tokens == (3,)


def test_rates_follow_what_is_committed() -> None:
    drafter = Recycling(10, width=2)
    drafter.begin([1], 0)
    drafter.learn([1, 2], answers([2, 9], [1, 9]))
    before = drafter.propose(1).probs[0]
    drafter.commit([2, 1] * 20)
    assert before < drafter.propose(1).probs[0] <= 1.0


def test_memory() -> None:
    assert Recycling(1000, width=4).nbytes() == 16000
