"""How far one can go back where recurrent layers keep states."""

from __future__ import annotations

import numpy as np
import pytest

from edgedec.memory import CacheBook, StateBook


def test_passes_apply_all_tokens_before_them() -> None:
    book = StateBook(29)
    assert not book.passed(0, 29, chain=True)
    assert book.applied == 0
    assert not book.passed(29, 1, chain=True)
    assert book.applied == 29
    assert not book.passed(30, 20, chain=False)
    assert (book.applied, book.reachable(30), book.reachable(29)) == (30, 30, 0)
    assert book.passed(30, 100, chain=True)
    assert (book.applied, book.reachable(101), book.reachable(100)) == (101, 101, 0)


def test_a_trail_alone_goes_back_as_far_as_its_rows() -> None:
    book = StateBook(30, applies=False)
    for at in range(40):
        assert not book.passed(at, 1, chain=True)
    assert [book.reachable(length) for length in (10, 9)] == [10, 0]
    book.rewind(12)
    book.passed(12, 1, chain=True)
    assert [book.reachable(length) for length in (10, 9)] == [10, 0]
    book.passed(13, 30, chain=False)
    assert [book.reachable(length) for length in (13, 12)] == [13, 0]


def test_a_checkpoint_is_what_is_left_behind_it() -> None:
    book = StateBook(29)
    book.passed(0, 50, chain=True)
    book.checkpoint = book.applied
    book.passed(50, 1, chain=True)
    assert [book.reachable(length) for length in (51, 50, 49, 21, 20, 0)] == [51, 50, 21, 21, 0, 0]
    book.rewind(21)
    assert (book.applied, book.checkpoint) == (21, 21)
    book.rewind(0)
    assert (book.applied, book.checkpoint) == (0, 0)


def test_a_pass_that_failed_leaves_the_checkpoint() -> None:
    book = StateBook(29)
    book.passed(0, 50, chain=True)
    book.checkpoint = book.applied
    book.lose()
    assert [book.reachable(length) for length in (50, 21, 20)] == [21, 21, 0]


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_a_pass_reads_are_never_overwritten(seed: int) -> None:
    """A ring of 32 rows in which every slot says who wrote it last, through random passes."""
    rng = np.random.default_rng(seed)
    applies, tail = bool(seed % 2), int(rng.integers(1, 5))
    book = CacheBook(2000, states=StateBook(32 - tail, applies=applies))
    states, ring, kept = book.states, np.full(32, -1), 0
    assert states is not None
    for _ in range(300):
        if book.length > 1800 or rng.random() < 0.3:
            length = int(rng.integers(max(book.length - 35, 0), book.length + 1))
            before = states.applied
            book.rewind(length)
            if states.applied < before:
                ring[[slot % 32 for slot in range(book.length - tail, book.length)]] = range(
                    book.length - tail, book.length
                )
            continue
        chain = rng.random() < 0.6
        count = int(rng.integers(1, 80 if chain else states.undone + 1))
        for slot in range(max(states.applied, 0) - tail, book.length):
            assert slot < 0 or ring[slot % 32] == slot
        parents = None if chain else [-1] * count
        planned = book.plan(count, parents)
        for slot in range(book.length, book.length + count):
            ring[slot % 32] = slot
        if book.append(planned):
            states.checkpoint = kept = states.applied
        if not planned.chain:
            book.keep([0])
    assert kept
