"""Contract of peeks that resume: a draft may skip layers, and no pass sees it."""

from __future__ import annotations

import numpy as np
import pytest

from edgedec.core.forward import Forward
from edgedec.core.rows import Rows
from tests.backends.conftest import Make
from tests.backends.test_contract import PARENTS, PROMPT, TREE
from tests.backends.test_peek import CHAIN, WIDE, fed, same, slots

FULL = Rows(full=True)


def pairs(forward: Forward) -> list[tuple[int, int]]:
    """The outer exits and a middle one, each with those behind it."""
    exits = sorted({forward.caps.exits[at] for at in (0, len(forward.caps.exits) // 2, -1)})
    return [(exit, to) for exit in exits for to in exits if to >= exit]


@pytest.mark.parametrize("pieces", [(1, 1, 1), (5,), (2, 3)])
def test_a_pass_after_a_skip_has_the_bits_of_a_plain_one(make_peeks: Make, pieces: tuple[int, ...]) -> None:
    plain = fed(make_peeks)
    expected = plain.extend(CHAIN, rows=WIDE)
    for exit, resume in pairs(plain):
        forward, start = fed(make_peeks), 0
        for size in pieces:
            forward.peek(CHAIN[start : start + size], exit=exit, resume=resume)
            start += size
        assert forward.peeked == tuple(CHAIN[:start])
        assert same(make_peeks, forward.extend(CHAIN, rows=WIDE), expected)
        assert slots(forward) == slots(plain)


def test_also_over_a_tree_of_which_a_path_stays(make_peeks: Make) -> None:
    plain = fed(make_peeks)
    expected = plain.extend(TREE, parents=PARENTS, rows=WIDE)
    plain.keep_path([0, 2, 4])
    for exit, resume in pairs(plain):
        forward = fed(make_peeks)
        forward.peek(TREE[:4], parents=PARENTS[:4], exit=exit, resume=resume)
        assert same(make_peeks, forward.extend(TREE, parents=PARENTS, rows=WIDE), expected)
        forward.keep_path([0, 2, 4])
        assert slots(forward) == slots(plain)


def test_a_rejected_draft_leaves_nothing(make_peeks: Make) -> None:
    plain = fed(make_peeks)
    expected = plain.extend([21, 4], rows=WIDE)
    for exit, resume in pairs(plain):
        forward = fed(make_peeks)
        forward.peek(CHAIN, exit=exit, resume=resume)
        assert same(make_peeks, forward.extend([21, 4], rows=WIDE), expected)
        assert slots(forward) == slots(plain)


def test_a_skip_of_no_layer_has_the_rows_of_the_whole_model(make_peeks: Make) -> None:
    expected = fed(make_peeks).extend(TREE, parents=PARENTS, rows=FULL)
    for exit in make_peeks().caps.exits:
        forward = fed(make_peeks)
        first = forward.peek(TREE[:3], parents=PARENTS[:3], exit=exit, rows=FULL, resume=exit)
        last = forward.peek(TREE[3:], parents=PARENTS[3:], exit=exit, rows=FULL, resume=exit)
        for part, kept in ((first, slice(3)), (last, slice(3, None))):
            assert part.logits is not None
            assert expected.logits is not None
            assert part.ids.tolist() == expected.ids[kept].tolist()
            assert part.logits.tobytes() == expected.logits[kept].tobytes()


def test_a_skip_of_all_layers_has_the_rows_of_the_exit(make_peeks: Make) -> None:
    forward = fed(make_peeks)
    last = forward.caps.exits[-1]
    keep = np.arange(0, forward.spec.vocab_size, 2, dtype=np.int64)
    for exit in forward.caps.exits:
        expected = forward.peek(CHAIN, exit=exit, rows=Rows(full=True, keep=keep))
        forward.rewind(len(PROMPT))
        found = forward.peek(CHAIN, exit=exit, rows=Rows(full=True, keep=keep), resume=last)
        forward.rewind(len(PROMPT))
        assert make_peeks.same(found, expected)


def test_a_peek_another_way_drops_the_peeked(make_peeks: Make) -> None:
    forward = fed(make_peeks)
    low, *_, high = forward.caps.exits
    forward.peek([5], exit=low)
    forward.peek([7], exit=low, resume=high)
    assert forward.peeked == (7,)
    forward.peek([9], exit=low, resume=high)
    assert forward.peeked == (7, 9)
    forward.peek([9], exit=low, resume=low)
    assert forward.peeked == (9,)


def test_wrong_ways_are_refused_and_change_nothing(make_peeks: Make) -> None:
    forward = fed(make_peeks)
    low, *_, high = forward.caps.exits
    forward.peek([5], exit=low)
    with pytest.raises(ValueError, match="no way back"):
        forward.peek([7], exit=high, resume=low)
    with pytest.raises(ValueError, match="no exit after 1000 layers"):
        forward.peek([7], exit=low, resume=1000)
    assert forward.peeked == (5,)
