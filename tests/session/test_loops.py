"""Replies that go round in circles are seen, and long lists that are right are not taken for them."""

from __future__ import annotations

import random
from ctypes import c_char_p, c_int, c_int32, c_size_t, c_void_p

import pytest

from edgedec.native.probe import function
from edgedec.session.loops import LONGEST_TOKENS, TAIL_TOKENS, loops
from tests.fixtures.nightly import every
from tests.session.right_lists import looping, right_lists, tokens_of

RIGHT, LOOPING = right_lists(), looping()


def in_both(tokens: list[int], tail: bytes) -> bool:
    """The answer of this module, and of the native engine."""
    call = function("loops", c_int, c_void_p, c_size_t, c_char_p, c_size_t)
    found = bool(call((c_int32 * len(tokens))(*tokens), len(tokens), tail, len(tail)))
    assert loops(tokens, tail) == found
    return found


def cut_at(text: str) -> int | None:
    """The number of tokens after which a reply is cut, as replies look for it: every 32 tokens."""
    tokens, pieces = tokens_of(text)
    for count in range(TAIL_TOKENS, len(tokens), 32):
        if in_both(tokens[:count], b"".join(pieces[count - TAIL_TOKENS : count])):
            return count
    return None


def test_there_are_a_hundred_right_lists_and_all_are_long() -> None:
    assert len(RIGHT) == len(set(RIGHT.values())) == 100
    assert all(len(tokens_of(text)[0]) > TAIL_TOKENS for text in RIGHT.values())


@pytest.mark.parametrize("number", every(4, range(25)))
def test_no_right_list_is_cut(number: int) -> None:
    cut = {name: cut_at(text) for name, text in RIGHT.items() if name.startswith(f"{number} ")}
    assert cut == dict.fromkeys(cut)
    assert len(cut) == 4


@pytest.mark.parametrize("name", LOOPING)
def test_what_goes_round_is_cut_soon(name: str) -> None:
    count = cut_at(LOOPING[name])
    assert count is not None
    assert count <= 640


def test_only_whole_repetitions_of_short_pieces_are_a_loop() -> None:
    piece = list(range(LONGEST_TOKENS))
    assert in_both([1, 2, 3, *piece * 4], b"")
    assert not in_both([*piece * 4][1:], b"")  # too few
    assert not in_both(list(range(LONGEST_TOKENS + 1)) * 6, b"")
    assert not in_both([*piece * 4, 99], b"")
    assert not in_both([*piece * 2, 99, *piece * 2], b"")


def test_a_long_text_that_is_said_twice_or_thrice_is_none() -> None:
    text = "".join(f"{n * 7919 % 1000} words of a text " for n in range(80))
    assert cut_at(text * 3) is None
    assert cut_at(text * 9) is not None


def test_the_native_engine_agrees_on_any_text() -> None:
    rng = random.Random(7)
    marks = ["1. ", "22) ", "- 3: ", "**4.** ", "5", "\n", "\n", "a ", "b ", "\t", "\r", "\x0b", "é "]
    marks += ["#", "* "]
    found = set()
    for _ in range(400):
        some = rng.choices(marks, k=rng.choice((1, 3, 6)))
        tail = "".join(rng.choices(some, k=200) if rng.random() < 0.5 else some * 40).encode()
        tokens = rng.choices(range(rng.choice((2, 9))), k=300) if rng.random() < 0.5 else list(range(300))
        if rng.random() < 0.3:
            tokens = (tokens[:7] * 20 + [rng.randrange(9)]) * rng.randrange(2, 19)
        found.add(in_both(tokens, tail))
    assert found == {True, False}
