"""The subset of ids that a trimmed head keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedec.draft import subset
from edgedec.draft.subset import TILE

NONE = np.empty(0, np.int64)


class Letters:
    """A tokenizer with a token for each byte, some longer ones, and control tokens behind them."""

    pieces = (b'",', b"},", b"```", b" the", b"cat")
    controls = ("<end>", "<unused0>", "<|reserved_special_token_7|>")

    @property
    def size(self) -> int:
        return 256 + len(self.pieces) + len(self.controls)

    def id_of(self, piece: bytes) -> int | None:
        if len(piece) == 1:
            return piece[0]
        return 256 + self.pieces.index(piece) if piece in self.pieces else None

    def control_ids(self) -> dict[str, int]:
        return {text: 256 + len(self.pieces) + at for at, text in enumerate(self.controls)}


def test_bytes_ends_and_closing_tokens_are_always_kept() -> None:
    kept = subset.always_kept(Letters(), [300])
    assert set(range(256)) <= set(kept.tolist())
    assert {256, 257, 258} <= set(kept.tolist())  # they close JSON and code
    assert not {259, 260} & set(kept.tolist())  # " the" and "cat" have to be frequent
    assert 261 in kept
    assert 300 in kept
    assert not {262, 263} & set(kept.tolist())


def test_the_most_frequent_ids_are_kept_beside_those_that_must_be() -> None:
    counts = subset.counted([[5, 5, 5, 2, 2, 9], [9, 9, 9, 7]], 12)
    assert counts.tolist() == [0, 0, 2, 0, 0, 3, 0, 1, 0, 4, 0, 0]
    assert subset.best_ids(counts, NONE, 3).tolist() == [2, 5, 9]
    assert subset.best_ids(counts, np.array([0, 11]), 4).tolist() == [0, 5, 9, 11]
    assert subset.best_ids(counts, np.array([0, 1, 11]), 2).tolist() == [0, 1, 11]
    assert subset.best_ids(counts, NONE, 6).tolist() == [0, 1, 2, 5, 7, 9]


def test_tiles_are_ranked_by_the_sum_of_their_counts() -> None:
    counts = np.zeros(3 * TILE + 5, np.int64)
    counts[[1, TILE, TILE + 1, 3 * TILE + 4]] = [10, 6, 6, 1]
    assert subset.best_tiles(counts, NONE, TILE).tolist() == list(range(TILE, 2 * TILE))
    assert subset.best_tiles(counts, NONE, 2 * TILE).tolist() == list(range(2 * TILE))
    last = subset.best_tiles(counts, np.array([3 * TILE]), TILE)
    assert last.tolist() == list(range(3 * TILE, 3 * TILE + 5))


def test_what_was_counted_often_stays_above_what_was_not_and_the_rest_is_ranked_by_id() -> None:
    counts = np.zeros(50_000, dtype=np.int64)
    counts[[40_000, 45_000]] = 30
    likely = subset.expected(counts)
    assert likely.sum() == pytest.approx(10_060)
    kept = subset.best_ids(likely, NONE, 100).tolist()
    assert {40_000, 45_000} <= set(kept)
    assert set(range(98)) <= set(kept)
    tiles = subset.best_tiles(likely, NONE, 4096).tolist()
    assert {40_000, 45_000} <= set(tiles)


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=200),
    st.sets(st.integers(0, 199), max_size=9),
    st.integers(0, 300),
)
def test_whatever_is_counted_the_subset_is_one_that_a_head_can_have(
    counted: list[int], forced: set[int], size: int
) -> None:
    counts = np.array(counted, dtype=np.int64)
    always = np.array(sorted(token for token in forced if token < counts.size), dtype=np.int64)
    if not size and not always.size:
        return
    for choose in (subset.best_ids, subset.best_tiles):
        kept = choose(counts, always, max(size, TILE))
        assert subset.fault_of(kept, counts.size, always.tolist()) is None
        assert subset.coverage(kept, counts) <= 1.0
    everything = np.arange(counts.size)
    assert np.array_equal(subset.best_ids(counts, always, counts.size), everything)
    assert np.array_equal(subset.best_tiles(counts, always, counts.size + TILE), everything)


@given(st.lists(st.integers(0, 50), min_size=80, max_size=400), st.integers(1, 10))
def test_at_equal_tiles_whole_tiles_never_cover_less(counted: list[int], tiles: int) -> None:
    counts = np.array(counted, dtype=np.int64)
    single = subset.best_ids(counts, NONE, tiles)
    read = subset.tiles_of(single)
    whole = subset.best_tiles(counts, NONE, read * TILE)
    assert subset.tiles_of(whole) <= read
    assert subset.coverage(whole, counts) >= subset.coverage(single, counts)


def test_coverage_is_the_share_of_tokens_inside() -> None:
    counts = subset.counted([[0, 0, 0, 1]], 4)
    assert subset.coverage(np.array([0]), counts) == 0.75
    assert subset.coverages(np.array([1, 2]), {"code": counts, "none": counts * 0}) == {
        "code": 0.25,
        "none": 1.0,
    }


@pytest.mark.parametrize(
    ("keep", "fault"),
    [
        ([], "no tokens"),
        ([3, 2], "ascend"),
        ([2, 2], "ascend"),
        ([-1, 2], "outside"),
        ([2, 8], "outside"),
        ([2, 4], "end token 3"),
    ],
)
def test_ids_that_no_head_can_be_trimmed_to_are_named(keep: list[int], fault: str) -> None:
    found = subset.fault_of(np.array(keep, dtype=np.int64), 8, [2, 3])
    assert found is not None
    assert fault in found
    assert subset.fault_of(np.array([2, 3, 7]), 8, [2, 3]) is None


def test_stretches_are_chosen_and_kept_as_a_whole() -> None:
    counts = np.zeros(20 * TILE, np.int64)
    counts[[3, 4 * TILE + 1, 9 * TILE]] = [1, 5, 7]
    kept = subset.best_tiles(counts, np.array([19 * TILE]), 12 * TILE, subset.STRETCH)
    tiles = np.unique(kept // TILE).tolist()
    assert tiles == [4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19]
    assert kept.size == 12 * TILE
