"""TreeAttention in rings: the bits of the whole cache, wherever a ring begins anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.attention import F16, Model, bits, path, run
from tests.kernels.float_rows import float_rows, rows_of_caches, same_bits
from tests.kernels.test_tree_attention import problem, random_tree

EVERY_CACHE = pytest.mark.parametrize(("row", "int8"), rows_of_caches())
CHAIN = [token - 1 for token in range(9)]
TREE = [-1, 0, 0, 1, 1, 2, 5, -1, 7]


def ring_of(cache: F16, length: int, rows: int, window: int) -> F16:
    """The last window - 1 slots before `length`, in their places; all else is NaN: reading it shows."""
    ring = np.full((*cache.shape[:2], rows, cache.shape[3]), np.float16(np.nan))
    for slot in range(max(length - window + 1, 0), length):
        ring[:, :, slot % rows] = cache[:, :, slot]
    return ring


def check(
    row: str,
    model: Model,
    parents: Sequence[int],
    length: int,
    rows: int,
    split: tuple[int, int, int] | None = None,
) -> None:
    """One pass in a ring and in a whole cache: outputs, what it writes, and that it writes nothing else."""
    count = len(parents)
    tokens, whole = model.tokens(count), model.cache(length, length + count)
    ring = ring_of(whole, length, rows, model.window)
    before = ring.copy()
    expected = run(row, model, tokens, parents, whole, length)
    out = run(row, replace(model, ring=True), tokens, parents, ring, length, split)
    assert same_bits(out, expected)
    assert np.isfinite(out).all()
    written = [slot % rows for slot in range(length, length + count)]
    assert same_bits(bits(ring[:, :, written]), bits(whole[:, :, length:]))
    others = sorted(set(range(rows)) - set(written))
    assert same_bits(bits(ring[:, :, others]), bits(before[:, :, others]))


@EVERY_CACHE
@pytest.mark.parametrize("parents", [CHAIN, TREE], ids=["chain", "tree"])
def test_a_ring_just_large_enough_begins_anew_anywhere(row: str, parents: list[int], int8: bool) -> None:
    """At each of its rows: before, within and behind the pass; after none, one and many rounds."""
    model = Model(heads=4, window=12, int8=int8)
    rows = model.window - 1 + len(parents)
    for length in [*range(rows + 2), *range(7 * rows, 8 * rows + 1)]:
        check(row, replace(model, seed=length), parents, length, rows)


@EVERY_CACHE
@pytest.mark.parametrize("dim", [16, 80, 256])
def test_rings_of_many_shapes(row: str, dim: int, int8: bool) -> None:
    rng = np.random.default_rng(dim)
    for seed in range(12):
        count, window = int(rng.integers(1, 40)), int(rng.integers(1, 70))
        rows = window - 1 + count + int(rng.integers(0, 20))
        model = Model(
            dim=dim, window=window, norms=seed % 2 == 0, softcap=seed % 3 * 1.5, seed=seed, int8=int8
        )
        check(row, model, random_tree(seed, count), int(rng.integers(0, 300)), rows)


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("split", [(1, 0, 0), (1, 16, 16), (2, 5, 32), (3, 1, 16), (3, 1000, 48)])
@pytest.mark.parametrize("length", [13, 40, 58, 200])
def test_the_split_over_threads_does_not_matter_in_a_ring(
    row: str, split: tuple[int, int, int], length: int
) -> None:
    model = Model(heads=14, kv_heads=2, dim=48, window=25)
    parents = [*range(-1, 29), *random_tree(1, 40)[30:]]
    check(row, model, parents, length, model.window - 1 + len(parents), split)


def test_a_ring_with_sinks() -> None:
    check("scalar", Model(dim=32, window=8, sinks=True), [-1, 0, 0], 20, 16)


@EVERY_CACHE
def test_a_long_window_over_the_end_of_a_ring(row: str, int8: bool) -> None:
    """Long enough to be shared out by keys, as few tokens over a long context are."""
    model = Model(heads=6, kv_heads=2, dim=96, window=4000, int8=int8)
    check(row, model, [-1, 0, 0], 5000, 4300)


@EVERY_CACHE
def test_many_passes_round_and_round(row: str, int8: bool) -> None:
    """Trees of which a path is kept, as a backend keeps them; every pass as in the whole cache."""
    rng, length, rows = np.random.default_rng(5), 0, 31
    model = Model(window=20, heads=4, kv_heads=2, dim=32, int8=int8)
    whole, ring = model.cache(0, 500), model.cache(0, rows)
    for seed in range(90):
        count = int(rng.integers(1, 13))
        parents = random_tree(seed, count)
        tokens = replace(model, seed=seed).tokens(count)
        expected = run(row, model, tokens, parents, whole, length)
        assert same_bits(run(row, replace(model, ring=True), tokens, parents, ring, length), expected)
        kept = length + np.array(path(parents, int(rng.integers(count))))
        end = length + len(kept)
        whole[:, :, length:end] = whole[:, :, kept]
        ring[:, :, np.arange(length, end) % rows] = ring[:, :, kept % rows]
        length = end
    assert length > 6 * rows


HUGE = 1 << 62


@pytest.mark.parametrize(
    ("model", "count", "length", "rows", "word"),
    [
        (Model(window=8, ring=True), 4, 8, 10, "ring is too small"),
        (Model(window=8, ring=True), 4, 1000, 10, "ring is too small"),
        (Model(window=8, ring=True), 1, HUGE, 0, "ring is too small"),
        (Model(window=8, ring=True), 12, 0, 11, "ring is too small"),
        (Model(window=HUGE, ring=True), 4, 8, 10, "ring is too small"),
        (Model(window=8, ring=True), 4, HUGE, 11, "length is not"),
        (Model(window=0, ring=True), 4, 8, 11, "cache is too small"),
        (Model(window=8), 4, 8, 11, "cache is too small"),
    ],
)
def test_a_ring_too_small_is_refused(model: Model, count: int, length: int, rows: int, word: str) -> None:
    assert word in (problem(model, [-1] * count, length, rows) or "")


@pytest.mark.parametrize(
    ("model", "count", "length", "rows"),
    [
        (Model(window=8, ring=True), 4, 1000, 11),
        (Model(window=8, ring=True), 4, 6, 10),  # still in its first round
        (Model(window=HUGE, ring=True), 4, 6, 10),
        (Model(window=0, ring=True), 4, 6, 10),
        (Model(window=1, ring=True), 4, 1000, 4),
    ],
)
def test_a_ring_that_holds_all_that_is_seen_is_not(model: Model, count: int, length: int, rows: int) -> None:
    assert problem(model, [-1] * count, length, rows) is None
