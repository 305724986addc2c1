from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedec.backends.fake import tiny_spec
from edgedec.core.errors import ContextFullError
from edgedec.core.model_spec import ModelSpec
from edgedec.memory import CacheBook, KvType, kv_bytes, kv_row_bytes, ring_slots
from tests.fixtures.paths import path_to

TREES = st.integers(1, 12).flatmap(lambda n: st.tuples(*(st.integers(-1, i - 1) for i in range(n)))).map(list)


def book(length: int = 0, capacity: int = 32) -> CacheBook:
    result = CacheBook(capacity)
    if length:
        result.append(result.plan(length, None))
    return result


def test_a_chain_takes_slots_in_order() -> None:
    b = book(3)
    planned = b.plan(4, None)
    assert (planned.start, len(planned.parents), planned.chain) == (3, 4, True)
    assert list(planned.parents) == [-1, 0, 1, 2]
    assert list(planned.positions) == [3, 4, 5, 6]
    assert b.length == 3
    b.append(planned)
    assert b.length == 7
    one = b.plan(1, None)
    assert (list(one.parents), list(one.positions), one.chain) == ([-1], [7], True)


def test_siblings_share_a_position() -> None:
    planned = book(5).plan(5, [-1, 0, 0, 2, -1])
    assert list(planned.positions) == [5, 6, 6, 7, 5]
    assert not planned.chain


def test_a_spelled_out_chain_is_a_chain() -> None:
    assert book(5).plan(3, [-1, 0, 1]).chain


@pytest.mark.parametrize(
    ("tokens", "parents"),
    [(0, None), (0, []), (2, [-1]), (1, [-1, 0]), (2, [0, -1]), (2, [-1, 1]), (2, [-1, 2]), (2, [-2, 0])],
)
def test_malformed_passes_change_nothing(tokens: int, parents: list[int] | None) -> None:
    b = book(4)
    with pytest.raises(ValueError, match=r"parent|token"):
        b.plan(tokens, parents)
    assert (b.length, b.settled) == (4, True)


def test_what_does_not_fit_is_refused_with_the_numbers() -> None:
    b = book(30)
    with pytest.raises(ContextFullError, match=r"3 more tokens do not fit: the context holds 32 and has 30"):
        b.plan(3, None)
    b.append(b.plan(2, None))
    with pytest.raises(ContextFullError):
        b.plan(1, None)


def test_a_tree_must_be_settled() -> None:
    b = book(4)
    b.append(b.plan(3, [-1, -1, 0]))
    with pytest.raises(ValueError, match="settle"):
        b.plan(1, None)
    b.rewind(4)
    assert b.plan(1, None).start == 4


@given(TREES, st.data())
def test_any_root_path_can_be_kept(parents: list[int], data: st.DataObject) -> None:
    """The moves put the tokens of the path, and only those, into consecutive slots."""
    b = book(6)
    b.append(b.plan(len(parents), parents))
    path = path_to(data.draw(st.integers(-1, len(parents) - 1)), parents)
    slots = np.arange(-6, len(parents))  # slot -> node of the pass (negative: older)
    sources, targets = b.keep(path)
    slots[targets] = slots[sources]
    assert slots[: b.length].tolist() == [*range(-6, 0), *path]
    assert b.settled
    assert all(s > t for s, t in zip(sources, targets, strict=True))


@given(TREES, st.lists(st.integers(-2, 12), max_size=6))
def test_anything_else_is_refused_and_changes_nothing(parents: list[int], nodes: list[int]) -> None:
    b = book(6)
    b.append(b.plan(len(parents), parents))
    is_path = all(0 <= n < len(parents) for n in nodes) and [-1, *nodes][: len(nodes)] == [
        parents[n] for n in nodes if 0 <= n < len(parents)
    ]
    if is_path:
        b.keep(nodes)
        assert b.length == 6 + len(nodes)
    else:
        with pytest.raises(ValueError, match="root path"):
            b.keep(nodes)
        assert b.length == 6 + len(parents)


def test_a_path_can_be_kept_once() -> None:
    b = book(6)
    with pytest.raises(ValueError, match="no pass"):
        book().keep([])
    b.keep([0, 1])
    with pytest.raises(ValueError, match="no pass"):
        b.keep([0])


def test_rewind() -> None:
    b = book(6)
    for wrong in (-1, 7):
        with pytest.raises(ValueError, match="cannot rewind"):
            b.rewind(wrong)
    b.rewind(6)
    assert b.length == 6
    b.rewind(2)
    assert b.length == 2
    b.rewind(0)
    assert b.plan(1, None).start == 0


def test_rewind_into_a_tree_only_along_its_chain() -> None:
    for length, allowed in [(4, True), (5, True), (6, True), (7, False), (8, False)]:
        b = book(4)
        b.append(b.plan(4, [-1, 0, 0, 1]))  # nodes 0 and 1 begin as a chain; node 2 is a sibling of node 1
        if allowed:
            b.rewind(length)
            assert (b.length, b.settled) == (length, True)
        else:
            with pytest.raises(ValueError, match="inside a tree"):
                b.rewind(length)
            assert (b.length, b.settled) == (8, False)


@given(st.data(), st.integers(2, 12), st.integers(1, 6), st.integers(0, 8))
def test_rings_can_go_back_where_nothing_that_is_seen_is_gone(
    data: st.DataObject, window: int, longest: int, slack: int
) -> None:
    """Of each row of a ring the slot that was written last is noted, for any history of passes."""
    ring = window + longest + slack
    b, rows = CacheBook(1000, window=window, ring=ring), [-1] * ring

    def whole(length: int) -> bool:
        return all(rows[slot % ring] == slot for slot in range(max(length - window + 1, 0), length))

    for _ in range(data.draw(st.integers(1, 40))):
        tokens = data.draw(st.integers(1, longest))
        planned = b.plan(tokens, data.draw(st.sampled_from([None, [-1] * tokens])))
        for slot in range(planned.start, planned.start + tokens):
            rows[slot % ring] = slot
        if data.draw(st.integers(0, 9)):  # else it fails
            b.append(planned)
        if not b.settled:
            b.keep([0])
        assert b.reachable(b.length) == b.length
        expected = [length if whole(length) else 0 for length in range(b.length + 1)]
        assert [b.reachable(length) for length in range(b.length + 1)] == expected
        if not data.draw(st.integers(0, 3)):
            length = data.draw(st.integers(0, b.length))
            b.rewind(length)
            assert b.length == expected[length]


def test_kv_bytes_counts_windows() -> None:
    spec = replace(tiny_spec(8, 1000), n_layers=3, n_window_layers=2, window=10)
    assert kv_bytes(spec, 1000, ring=50) == 2 * 2 * spec.n_kv_heads * spec.head_dim * (1000 + 2 * 50)
    assert kv_bytes(spec, 1000) == kv_bytes(replace(spec, n_window_layers=0, window=0), 1000)


@given(st.integers(1, 5000), st.integers(1, 512), st.sampled_from(["fp16", "int8"]))
def test_rings_hold_what_they_must_in_whole_pages(capacity: int, longest: int, kv: KvType) -> None:
    spec = replace(tiny_spec(8, 5000), head_dim=96, n_layers=3, n_window_layers=2, window=100)
    slots, row = ring_slots(spec, capacity, longest, kv), kv_row_bytes(96, kv)
    least = 100 + longest + 256
    assert min(least, capacity) <= slots <= capacity
    if slots < capacity:
        assert 0 <= -slots * row % 4096 < row
        assert (slots - least) * row < 4096
    assert ring_slots(replace(spec, n_window_layers=0, window=0), capacity, longest, kv) == 0


def test_kv_bytes_counts_keys_and_values_in_fp16() -> None:
    spec = ModelSpec("m", "llama", 100, n_layers=30, n_heads=9, n_kv_heads=3, head_dim=64,
                     hidden_size=576, context_length=2048)  # fmt: skip
    assert kv_bytes(spec, 2048) == 2 * 30 * 3 * 64 * 2 * 2048
    assert kv_bytes(tiny_spec(8, 16), 16) == 2 * 2 * 16


def test_behind_a_gap_positions_go_on_and_slots_do_not() -> None:
    b = book(10)
    b.evict(2, 7)
    assert (b.length, b.slots, b.evicted) == (10, 5, range(2, 7))
    planned = b.plan(3, [-1, 0, 0])
    assert (planned.start, list(planned.positions)) == (5, [10, 11, 11])
    b.append(planned)
    with pytest.raises(ValueError, match="cannot evict"):
        b.evict(2, 3)
    assert b.keep([0, 2]) == ([7], [6])
    assert (b.length, b.slots) == (12, 7)
    b.evict(2, 3)
    assert (b.length, b.slots, b.evicted) == (12, 6, range(2, 8))
    with pytest.raises(ValueError, match="holds 12 tokens, 6 of 2 to 7 have left"):
        b.rewind(7)
    b.rewind(8)
    assert (b.length, b.slots, b.evicted) == (8, 2, range(2, 8))
    b.rewind(2)
    assert (b.length, b.slots, b.evicted) == (2, 2, range(0))


def test_the_capacity_bounds_the_slots_alone() -> None:
    b = book(32)
    with pytest.raises(ContextFullError):
        b.plan(1, None)
    b.evict(4, 12)
    b.append(b.plan(8, None))
    assert (b.length, b.slots) == (40, 32)
    with pytest.raises(ContextFullError, match="holds 32 and has 32"):
        b.plan(1, None)


def test_some_of_a_zone_can_stay() -> None:
    b = book(20)
    b.evict(2, 12, 4)
    assert (b.length, b.slots, b.evicted) == (20, 14, range(2, 12))
    for wrong in ((2, 5, 0), (3, 14, 0), (2, 14, 12), (2, 15, 1), (2, 14, -1)):  # slots 2 to 5 stayed
        with pytest.raises(ValueError, match="cannot evict"):
            b.evict(*wrong)
    b.evict(2, 6, 3)
    assert (b.length, b.slots, b.evicted) == (20, 13, range(2, 12))
    b.evict(2, 7, 4)
    assert (b.length, b.slots, b.evicted) == (20, 12, range(2, 14))
    with pytest.raises(ValueError, match="8 of 2 to 13 have left"):
        b.rewind(13)
    b.rewind(14)
    assert (b.length, b.slots) == (14, 6)


@given(st.data(), st.integers(0, 4))
def test_slots_and_positions_are_those_of_a_list(data: st.DataObject, first: int) -> None:
    """Against the positions of resident tokens, written down; of a zone any may stay."""
    b, held, zone = CacheBook(40), list[int](), range(0)
    for _ in range(data.draw(st.integers(1, 30))):
        act = data.draw(st.sampled_from(["feed", "evict", "rewind"]))
        if act == "feed" and (count := data.draw(st.integers(1, 9))) <= 40 - b.slots:
            held += range(b.length, b.length + count)
            b.append(b.plan(count, None))
        stayed = sum(position in zone for position in held)
        start = zone.start if zone else first
        if act == "evict" and len(held) > start + stayed:
            end = data.draw(st.integers(start + max(stayed, 1), len(held)))
            kept = data.draw(st.sets(st.integers(start, end - 1), max_size=end - start - 1))
            zone = range(start, max(held[end - 1] + 1, zone.stop if zone else 0))
            held = [*held[:start], *(held[slot] for slot in sorted(kept)), *held[end:]]
            b.evict(start, end, len(kept))
        if act == "rewind" and held:
            length = data.draw(st.sampled_from([0, b.length, *held]))
            if length in zone[1:]:
                with pytest.raises(ValueError, match="cannot rewind"):
                    b.rewind(length)
            else:
                b.rewind(length)
                held = [position for position in held if position < length]
                zone = range(0) if length <= zone.start else zone
        assert (b.slots, b.evicted) == (len(held), zone)
        assert b.length == max(zone.stop, *(position + 1 for position in held), 0, 0)
