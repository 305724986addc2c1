"""Drafters of the kernel library, called as no engine calls them; also with sanitizers."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from edgedec.core.errors import BackendError
from edgedec.core.rows import HeadRows
from edgedec.core.tree import EMPTY, DraftTree
from edgedec.draft import Lookup, Recycling
from edgedec.draft.native import _TABLES, NativeDrafter

Make = Callable[[], NativeDrafter]
MAKES: dict[str, Make] = {
    "lookup": Lookup,
    "lookup of 2": lambda: Lookup(capacity=2),
    "lookup of none": lambda: Lookup(capacity=-5),
    "recycling": Recycling,
    "recycling in one place": lambda: Recycling(memory=-1),
    "recycling in two": lambda: Recycling(memory=64),
}
LEAST, MOST = -(1 << 31), (1 << 31) - 1
TWO = DraftTree((1, 2), (-1, 0), (0.5, 0.5), ("x", "x"))


def rows(count: int, value: float = 0.0, *, columns: int = 8, temperature: float = 1.0) -> HeadRows:
    """Rows in which every token is as good as this."""
    ids = np.arange(count * columns, dtype=np.int32).reshape(count, columns) % 7
    totals = np.zeros(count, np.float32)
    return HeadRows(np.full_like(ids, value, np.float32), ids, totals, totals, None, temperature)


def well_formed(tree: DraftTree, limit: int) -> bool:
    """Also as DraftTree itself checks: every parent precedes its children."""
    paths = [math.prod(tree.probs[node] for node in tree.path(end)) for end in range(len(tree))]
    falling = all(first >= second for first, second in pairwise(paths))
    return len(tree) <= max(limit, 0) and falling and all(0.0 < prob < 1.0 for prob in tree.probs)


@pytest.fixture(params=MAKES.values(), ids=list(MAKES))
def drafter(request: pytest.FixtureRequest) -> NativeDrafter:
    return request.param()  # type: ignore[no-any-return]


def test_any_int32_is_a_token(drafter: NativeDrafter) -> None:
    strange = [LEAST, -5, -2, -1, 0, MOST]
    drafter.begin(strange * 2, 0)
    for count in range(300):
        assert well_formed(drafter.propose(15), 15)
        tokens = tuple(strange[count % 3 :])
        tree = DraftTree(
            tokens, tuple(range(-1, len(tokens) - 1)), (0.5,) * len(tokens), ("x",) * len(tokens)
        )
        drafter.observe(tree, rows(len(tokens) + 1))
        drafter.commit(tokens)
    drafter.begin([-1], 0)
    assert well_formed(drafter.propose(15), 15)


@pytest.mark.parametrize("token", [LEAST - 1, MOST + 1, 1 << 70])
def test_another_number_is_refused(drafter: NativeDrafter, token: int) -> None:
    with pytest.raises(struct.error):
        drafter.begin([1, token], 0)
    with pytest.raises(struct.error):
        drafter.commit([token])


@pytest.mark.parametrize("kept", [-(1 << 40), -1, 4, 5, 100, 1 << 40])
def test_more_is_shared_than_there_is(drafter: NativeDrafter, kept: int) -> None:
    for tokens in ([1, 2, 1, 2], [], [3] * 200, [1, 2, 1]):
        drafter.begin(tokens, kept)
        assert well_formed(drafter.propose(15), 15)


@pytest.mark.parametrize("limit", [-(1 << 40), -1, 0, 1, 64, 65, 1 << 40])
def test_limits(drafter: NativeDrafter, limit: int) -> None:
    drafter.begin([1, 2, 3] * 50, 0)
    assert well_formed(drafter.propose(limit), min(limit, 64))


@pytest.mark.parametrize(
    ("floor", "some"), [(-1.0, True), (1.0, False), (math.inf, False), (math.nan, False)]
)
def test_floors(floor: float, some: bool) -> None:
    for drafter in (Lookup(), Recycling()):
        drafter.begin([1, 2, 3] * 50, 0)
        assert (len(drafter.propose(15, floor)) > 0) is some


@pytest.mark.parametrize("value", [0.0, -100.0, 3e38, -3e38, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("temperature", [1.0, 0.0, -1.0, 1e-300, math.inf, math.nan])
def test_logits_that_are_no_logits(value: float, temperature: float) -> None:
    drafter = Recycling(memory=1 << 12)
    drafter.begin([1], 0)
    for _ in range(3):
        drafter.observe(TWO, rows(3, value, temperature=temperature))
        drafter.commit([1, 2])
        assert well_formed(drafter.propose(15), 15)


@pytest.mark.parametrize("columns", [0, 1, 3])
def test_rows_too_short_to_learn_from(columns: int) -> None:
    drafter = Recycling(memory=1 << 12)
    drafter.begin([1], 0)
    drafter.observe(EMPTY, rows(1, columns=columns))
    drafter.commit([1])
    assert len(drafter.propose(15)) == 0


def test_rows_of_another_type_are_refused() -> None:
    drafter, good = Recycling(memory=1 << 12), rows(1)
    other = good.values.astype(np.float64)
    with pytest.raises(ValueError, match="types"):
        drafter.observe(EMPTY, HeadRows(other, good.ids, good.entropy, good.entropy))  # type: ignore[arg-type]


def test_rows_in_any_order_of_memory() -> None:
    plain, turned = Recycling(memory=1 << 12), Recycling(memory=1 << 12)
    good = rows(3)
    for drafter, ids in ((plain, good.ids), (turned, np.asfortranarray(good.ids))):
        drafter.observe(TWO, HeadRows(good.values, ids, good.logsumexp, good.entropy))
        drafter.commit([1, 2])
    assert plain.propose(15) == turned.propose(15)
    assert len(plain.propose(15)) == 15


def test_a_larger_tree_than_is_ever_fed() -> None:
    drafter = Recycling(memory=1 << 12)
    many = 500
    tree = DraftTree(tuple(range(many)), tuple(range(-1, many - 1)), (0.5,) * many, ("x",) * many)
    drafter.observe(tree, rows(many + 1))
    drafter.commit([1])
    assert well_formed(drafter.propose(15), 15)


def test_parents_that_come_later() -> None:
    """DraftTree refuses them; the library is called without it."""
    drafter = Recycling(memory=1 << 12)
    numbers = struct.pack("3i", *[1, 2, 3]), struct.pack("3i", *[2, LEAST, MOST])
    ids, floats = struct.pack("16i", *range(16)), bytes(64)
    _TABLES.learn(drafter.handle, 3, *numbers, 4, 4, ids, floats, floats, 1.0)
    _TABLES.commit(drafter.handle, numbers[0], 3)
    assert well_formed(drafter.propose(15), 15)


def test_nothing_at_no_address(drafter: NativeDrafter) -> None:
    _TABLES.begin(drafter.handle, None, -1, -1)
    _TABLES.begin(drafter.handle, None, 0, 1)
    _TABLES.commit(drafter.handle, None, -(1 << 40))
    _TABLES.learn(drafter.handle, -1, None, None, -1, -1, None, None, None, 1.0)
    _TABLES.destroy(None)
    assert len(drafter.propose(4)) == 0


@pytest.mark.parametrize("make", [lambda: Lookup(capacity=200), lambda: Recycling(memory=1 << 9)])
def test_what_was_saved_cut_short(make: Make) -> None:
    drafter = make()
    drafter.begin([1, 2, 3] * 4, 0)
    data, before = drafter.saved(), drafter.propose(15)
    assert len(before)
    for size in range(len(data)):
        if drafter.name == Lookup.name and size % 4 == 0:
            make().restore(data[:size], 10)  # fewer tokens
            continue
        with pytest.raises(ValueError, match=r"token|answers"):
            drafter.restore(data[:size], 10)
        assert drafter.saved() == data
    assert drafter.propose(15) == before
    for vocab in (0, -1, 3):
        with pytest.raises(ValueError, match="vocabulary"):
            drafter.restore(data, vocab)


def test_too_much_memory_is_one_clear_error() -> None:
    with pytest.raises(BackendError, match="no memory for the drafter lookup"):
        Lookup(capacity=1 << 40)
