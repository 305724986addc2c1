"""The slot for a request, by the prefixes that slots have cached."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedec.server.work.placement import LEAST_SHARED, Placement, SlotView, placed

EMPTY = (0, 0, 0)


def slots(*views: tuple[int, int, int], busy: tuple[int, ...] = ()) -> list[SlotView]:
    """Slots with (shared, cached, used)."""
    return [SlotView(at, at not in busy, *view) for at, view in enumerate(views)]


@pytest.mark.parametrize(
    ("views", "busy", "copies", "expected"),
    [
        # A conversation goes on in its own slot.
        ([(950, 1000, 1), EMPTY, (30, 500, 9)], (), True, Placement(0)),
        # One whose newest part is not wanted again keeps its slot only where none is empty.
        ([(600, 1000, 2), (30, 500, 1)], (), True, Placement(0)),
        ([(600, 1000, 2), EMPTY], (), True, Placement(1, 0, 600)),
        # Where several begin alike, the one that was used longest ago makes room.
        ([(500, 900, 3), (500, 900, 1), (500, 900, 2)], (), True, Placement(1)),
        # Another one that begins alike takes a copy, and the conversation keeps its slot.
        ([(200, 1000, 1), EMPTY], (), True, Placement(1, 0, 200)),
        # Without copies it takes over.
        ([(200, 1000, 1), EMPTY], (), False, Placement(0)),
        # The best prefix may lie in a busy slot.
        ([(900, 1000, 1), (100, 120, 2), (0, 50, 3)], (0,), True, Placement(1, 0, 900)),
        ([(900, 1000, 1), EMPTY], (0,), False, Placement(1)),
        # A prefix that is too short counts for nothing: the oldest slot goes, an empty one first.
        ([(LEAST_SHARED - 1, 100, 2), (0, 100, 1)], (), True, Placement(1)),
        ([(5, 100, 2), (0, 0, 7)], (), True, Placement(1)),
        # The only free slot.
        ([(0, 100, 1), (300, 800, 2)], (0,), True, Placement(1)),
        ([(700, 800, 1), (300, 800, 2)], (0,), True, Placement(1, 0, 700)),
    ],
)
def test_placement(
    views: list[tuple[int, int, int]], busy: tuple[int, ...], copies: bool, expected: Placement
) -> None:
    assert placed(slots(*views, busy=busy), copies=copies) == expected


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 99), st.integers(0, 99), st.integers(0, 9)), min_size=1
    ).filter(lambda every: any(one[0] for one in every)),
    st.booleans(),
)
def test_the_slot_is_free_and_the_prefix_no_worse_than_its_own(
    given_slots: list[tuple[bool, int, int, int]], copies: bool
) -> None:
    views = [
        SlotView(at, free, min(shared, cached), cached, used)
        for at, (free, shared, cached, used) in enumerate(given_slots)
    ]
    found = placed(views, copies=copies)
    slot = views[found.slot]
    assert slot.free
    best = max(view.shared for view in views if copies or view.free)
    kept = slot.shared
    if found.source is not None:
        assert copies
        assert found.tokens == views[found.source].shared > slot.shared
        kept = found.tokens
    assert kept > best - LEAST_SHARED
