"""Contract of peeks, hidden states and trimmed heads: no bit of a pass depends on what was peeked."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest

from edgedec.core.errors import ContextFullError, UnsupportedError
from edgedec.core.forward import Forward
from edgedec.core.rows import HeadRows, Rows
from tests.backends.conftest import Make
from tests.backends.test_contract import PARENTS, PROMPT, TREE, pick
from tests.fixtures.paths import path_to

TAPS = (0, 1)
WIDE = Rows(full=True, taps=TAPS)
CHAIN = [7, 9, 4, 13, 30]


def fed(make: Make, tokens: list[int] = PROMPT, capacity: int = 64) -> Forward:
    forward = make(capacity)
    if tokens:
        forward.extend(tokens)
    return forward


def slots(forward: Forward) -> bytes:
    """Keys and values of all tokens, where they can be read."""
    if forward.portable is None:
        return b""
    sink = io.BytesIO()
    forward.portable.write_cache(sink, forward.length)
    return sink.getvalue()


def same(make: Make, a: HeadRows, b: HeadRows) -> bool:
    assert a.hidden is not None
    assert b.hidden is not None
    return make.same(a, b) and a.hidden.tobytes() == b.hidden.tobytes()


def test_exits_ascend_to_all_layers_and_hidden_states_have_a_width(make_peeks: Make) -> None:
    caps = make_peeks().caps
    assert list(caps.exits) == sorted(set(caps.exits))
    assert caps.exits[0] >= 1
    assert set(TAPS) <= set(caps.taps)
    assert caps.taps == tuple(sorted(caps.taps))


@pytest.mark.parametrize(
    ("tokens", "parents"),
    [
        ([7, 9, 5, 13], None),  # another token in the midst
        ([8, 9, 4, 13, 30], None),  # another first one
        ([7, 9], None),  # fewer than peeked
        ([7], None),
        ([7, 9, 4, 13, 30, 2, 2], None),
        ([7, 9, 4, 13], [-1, 0, 0, 2]),  # other parents
        ([7, 9, 4, 13], [-1, -1, 1, 2]),
    ],
)
def test_peeks_that_match_in_part_or_not_at_all(
    make_peeks: Make, tokens: list[int], parents: list[int] | None
) -> None:
    plain = fed(make_peeks)
    expected = plain.extend(tokens, parents=parents, rows=WIDE)
    plain.rewind(len(PROMPT))
    for exit in plain.caps.exits:
        forward = fed(make_peeks)
        forward.peek(CHAIN, exit=exit)
        assert same(make_peeks, forward.extend(tokens, parents=parents, rows=WIDE), expected)
        forward.rewind(len(PROMPT))
        assert same(make_peeks, forward.extend(CHAIN, rows=WIDE), plain.extend(CHAIN, rows=WIDE))
        plain.rewind(len(PROMPT))


def test_peeked_rows_are_those_of_one_peek_over_all_and_of_the_whole_model(make_peeks: Make) -> None:
    forward = fed(make_peeks)
    full = Rows(full=True)
    for exit in forward.caps.exits:
        whole = forward.peek(TREE, parents=PARENTS, exit=exit, rows=full)
        forward.rewind(len(PROMPT))
        assert forward.peeked == ()
        first = forward.peek(TREE[:3], parents=PARENTS[:3], exit=exit, rows=full)
        last = forward.peek(TREE[3:], parents=PARENTS[3:], exit=exit, rows=Rows(indices=(3, 0), full=True))
        assert make_peeks.same(first, pick(whole, 0, 1, 2))
        assert make_peeks.same(last, pick(whole, 6, 3))
        forward.rewind(len(PROMPT))
    assert make_peeks.same(whole, fed(make_peeks).extend(TREE, parents=PARENTS, rows=full))


def test_a_chain_of_peeks_needs_no_parents(make_peeks: Make) -> None:
    forward = fed(make_peeks)
    exit = forward.caps.exits[0]
    first = forward.peek(CHAIN[:2], exit=exit)
    second = forward.peek(CHAIN[2:3], exit=exit)
    forward.rewind(len(PROMPT))
    rows = forward.peek(CHAIN[:3], exit=exit, rows=Rows())
    assert make_peeks.same(first, pick(rows, 1))
    assert make_peeks.same(second, pick(rows, 2))


def test_rewind_keep_path_evict_and_another_exit_drop_the_peeked(make_peeks: Make) -> None:
    forward = fed(make_peeks)
    low, high = forward.caps.exits[0], forward.caps.exits[-1]
    forward.peek(CHAIN, exit=low)
    forward.peek([5], exit=high)
    assert forward.peeked == (5,)
    forward.rewind(8)
    assert forward.peeked == ()
    forward.extend([1, 2, 3])
    forward.peek([5], exit=low)
    forward.keep_path([0, 1])
    assert forward.peeked == ()
    forward.peek([5], exit=low)
    if forward.evicting:
        forward.evict(2, 3)
        assert forward.peeked == ()
    plain = fed(make_peeks, [*PROMPT[:8], 1, 2])
    if forward.evicting:
        plain.evict(2, 3)
    assert same(make_peeks, forward.extend([5, 6], rows=WIDE), plain.extend([5, 6], rows=WIDE))


def test_rounds_of_peeks_passes_and_rewinds_stay_exact(make_peeks: Make) -> None:
    random = np.random.default_rng(5)
    forward, plain = fed(make_peeks, [], 250), fed(make_peeks, [], 250)
    for _ in range(40):
        tokens = random.integers(0, 60, random.integers(1, 9)).tolist()
        parents = [int(random.integers(-1, at)) if at else -1 for at in range(len(tokens))]
        for exit in random.choice(forward.caps.exits, random.integers(0, 3)).tolist():
            cut = int(random.integers(1, len(tokens) + 1))
            first = int(random.integers(1, cut + 1))
            for piece in (slice(first), slice(first, cut)):
                if tokens[piece]:
                    forward.peek(tokens[piece], parents=parents[piece], exit=exit)
            assert forward.peeked[-cut:] == tuple(tokens[:cut])
            assert forward.length == plain.length
        wide = replace(WIDE, temperature=float(random.choice([1.0, 0.5])))
        got, expected = (f.extend(tokens, parents=parents, rows=wide) for f in (forward, plain))
        assert same(make_peeks, got, expected)
        assert forward.peeked == ()
        path = path_to(int(random.integers(0, len(tokens))), parents)
        for one in (forward, plain):
            one.keep_path(path)
        if random.random() < 0.2:
            length = forward.length // 2
            forward.rewind(length)
            plain.rewind(length)
    assert slots(forward) == slots(plain)


def test_hidden_states_do_not_depend_on_the_pass(make_peeks: Make) -> None:
    whole = make_peeks().extend(PROMPT, rows=Rows(indices=(), taps=TAPS)).hidden
    assert whole is not None
    assert (whole.dtype, whole.shape) == (
        np.float32,
        (len(PROMPT), len(TAPS) * make_peeks().spec.hidden_size),
    )
    assert np.isfinite(whole).all()
    assert len(np.unique(whole, axis=0)) > 1
    for pieces in ((1,) * 10, (3, 7), (9, 1)):
        forward, start = make_peeks(), 0
        for size in pieces:
            part = forward.extend(PROMPT[start : start + size], rows=Rows(last=True, taps=TAPS))
            assert part.hidden is not None
            assert part.hidden.tobytes() == whole[start : start + size].tobytes()
            start += size
    assert make_peeks().extend(PROMPT).hidden is None


def test_layers_that_no_pass_returned_before_can_be_asked_for_behind_a_peek(make_peeks: Make) -> None:
    whole = make_peeks().extend([*PROMPT, 5, 6], rows=WIDE).hidden
    assert whole is not None
    forward = make_peeks()
    forward.extend(PROMPT)
    forward.peek([5, 6], exit=forward.caps.exits[-1])
    found = forward.extend([5, 6], rows=WIDE).hidden
    assert found is not None
    assert found.tobytes() == whole[len(PROMPT) :].tobytes()


def test_a_layer_whose_output_is_not_to_be_had_is_refused(make_peeks: Make) -> None:
    with pytest.raises(ValueError, match="hidden states of layers"):
        make_peeks().extend([1], rows=Rows(taps=(1000,)))


def test_hidden_states_belong_to_the_caller(make_peeks: Make) -> None:
    forward = make_peeks()
    first = forward.extend([1], rows=WIDE).hidden
    assert first is not None
    kept = first.copy()
    forward.extend([2], rows=WIDE)
    assert np.array_equal(first, kept)


@pytest.mark.parametrize("least", [0, 3])
def test_a_trimmed_head_gathers_the_rows_of_the_whole_one(make_peeks: Make, least: int) -> None:
    forward = fed(make_peeks)
    vocabulary = forward.spec.vocab_size
    keep = np.arange(least, vocabulary, 3, dtype=np.int64)
    for exit in forward.caps.exits:
        whole = forward.peek(CHAIN, exit=exit, rows=Rows(full=True))
        forward.rewind(len(PROMPT))
        trimmed = forward.peek(CHAIN, exit=exit, rows=Rows(full=True, keep=keep))
        check_trimmed(trimmed, whole, keep)
        forward.rewind(len(PROMPT))
    whole, again = forward.extend(CHAIN, rows=Rows(full=True)), fed(make_peeks)
    check_trimmed(again.extend(CHAIN, rows=Rows(full=True, keep=keep)), whole, keep)
    everything = np.arange(vocabulary, dtype=np.int64)
    assert make_peeks.same(fed(make_peeks).extend(CHAIN, rows=Rows(full=True, keep=everything)), whole)


def check_trimmed(trimmed: HeadRows, whole: HeadRows, keep: np.ndarray) -> None:
    assert trimmed.logits is not None
    assert whole.logits is not None
    outside = np.setdiff1d(np.arange(whole.logits.shape[1]), keep)
    assert np.isneginf(trimmed.logits[:, outside]).all()
    count = min(trimmed.ids.shape[1], len(keep))
    for row, logits in enumerate(trimmed.logits):
        order = keep[np.lexsort((keep, -logits[keep]))][:count]
        assert trimmed.ids[row, :count].tolist() == order.tolist()
        assert trimmed.values[row, :count].tolist() == logits[order].tolist()
        assert (trimmed.ids[row, count:] == -1).all()
        exact = logits[keep].astype(np.float64)
        assert trimmed.logsumexp[row] == pytest.approx(np.logaddexp.reduce(exact), abs=1e-5)
        # Each head computes its own best logits more exactly, and raises some of them above all others.
        assert np.abs(exact - whole.logits[row, keep]).max() < 0.1
        edge = max(whole.values[row, -1], trimmed.values[row, count - 1]) + 0.1
        both = [id for id in set(whole.ids[row]) & set(trimmed.ids[row]) if logits[id] > edge]
        assert both
        assert logits[both].tolist() == whole.logits[row, both].tolist()


def test_a_head_trimmed_to_fewer_ids_than_it_returns(make_peeks: Make) -> None:
    found = fed(make_peeks).extend([4], rows=Rows(last=True, keep=np.array([3, 9], np.int64)))
    assert set(found.ids[0, :2]) == {3, 9}
    assert (found.ids[0, 2:] == -1).all()
    assert np.isneginf(found.values[0, 2:]).all()


@pytest.mark.parametrize("keep", [[], [3, 3], [4, 2], [-1, 5], [5, 10**9]])
def test_ids_that_cannot_be_kept_are_refused(make_peeks: Make, keep: list[int]) -> None:
    forward, ids = fed(make_peeks), np.array(keep, np.int64)
    with pytest.raises(ValueError, match="keep"):
        forward.peek([1], exit=forward.caps.exits[0], rows=Rows(keep=ids))
    with pytest.raises(ValueError, match="keep"):
        forward.extend([1], rows=Rows(keep=ids))
    assert (forward.length, forward.peeked) == (len(PROMPT), ())


def test_wrong_peeks_are_refused_and_change_nothing(make_peeks: Make) -> None:
    forward = fed(make_peeks, capacity=14)
    exit = forward.caps.exits[0]
    forward.peek([7, 9], exit=exit)
    with pytest.raises(ValueError, match="no exit after 0 layers"):
        forward.peek([1], exit=0)
    for tokens, parents in (([], None), ([1], [2]), ([1], [-2]), ([1], []), ([-1], None), ([10**9], None)):
        with pytest.raises(ValueError, match=r"token|parent"):
            forward.peek(tokens, parents=parents, exit=exit)
    with pytest.raises(ValueError, match="hidden"):
        forward.peek([1], exit=exit, rows=WIDE)
    with pytest.raises(ValueError, match="rows"):
        forward.peek([1], exit=exit, rows=Rows(indices=(1,)))
    with pytest.raises(ContextFullError):
        forward.peek([1, 2, 3], exit=exit)
    with pytest.raises(ValueError, match="at most"):
        forward.peek([1] * forward.caps.max_pass, exit=exit)
    assert forward.peeked == (7, 9)
    expected = fed(make_peeks, capacity=14).extend([7, 9, 4], rows=WIDE)
    assert same(make_peeks, forward.extend([7, 9, 4], rows=WIDE), expected)


def test_a_tree_must_be_settled_before_a_peek(make_peeks: Make) -> None:
    forward = fed(make_peeks)
    forward.extend(TREE, parents=PARENTS)
    with pytest.raises(ValueError, match="settle"):
        forward.peek([1], exit=forward.caps.exits[0])


def test_forwards_without_exits_refuse(make: Make) -> None:
    forward = make()
    if forward.caps.exits:
        return
    assert forward.peeking is None
    if not forward.caps.taps:
        with pytest.raises(UnsupportedError, match="hidden"):
            forward.extend([1], rows=Rows(taps=TAPS))
    if not forward.caps.trims:
        with pytest.raises(UnsupportedError, match="trimmed"):
            forward.extend([1], rows=Rows(keep=np.array([1], np.int64)))
    assert forward.length == 0
