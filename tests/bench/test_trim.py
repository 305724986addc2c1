"""The sweep over trimmed heads: which are compared, how they are timed, and which is chosen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from edgedec.backends.fake import MarkovForward, without_exits
from edgedec.bench.studies.trim import STEPS, StepTimes, Subset, TrimReport, subsets, time_steps
from edgedec.bench.studies.weights import PassWeights
from edgedec.core.errors import UnsupportedError
from edgedec.core.rows import LAST_ROW, HeadRows, Rows
from edgedec.draft.subset import Counts
from edgedec.metrics.mbsu import Weights, mbsu

VOCAB = 640
ALWAYS = np.array([0, 40], dtype=np.int64)


def falling() -> Counts:
    """Counts as in a text: the more frequent half of all tokens are few ids, spread over the tiles."""
    rank = np.random.default_rng(0).permutation(VOCAB)
    return (100_000 / (1 + rank) ** 1.6).astype(np.int64)


class Timed(MarkovForward):
    """A pass takes 2 ms, and 10 us for every id of its head and every row."""

    def __init__(self) -> None:
        super().__init__(vocab_size=VOCAB, capacity=128, max_pass=64)
        self.now = 0.0

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        count = VOCAB if rows.keep is None else rows.keep.size
        self.now += 0.002 + 1e-5 * count * len(rows.resolve(len(tokens)))
        return super().extend(tokens, parents=parents, rows=rows)


def report(**others: Counts) -> TrimReport:
    counts, forward = falling(), Timed()
    heads = subsets(counts, ALWAYS, (128, 192, 256))
    times = time_steps(
        forward, heads, repeat=3, progress=lambda stage, done, total: None, clock=lambda: forward.now
    )
    weights = PassWeights(2_000 + VOCAB * 10, VOCAB * 10)
    return TrimReport("some model", 2, weights, {"chat": counts, **others}, heads, times, int(counts.sum()))


def test_every_size_is_compared_in_tiles_and_in_single_ids_and_the_full_head_comes_last() -> None:
    heads = subsets(falling(), ALWAYS, [256, 128, 10_000])
    assert [(head.whole, head.ids.size) for head in heads[:-1]] == [
        (True, 128),
        (False, 128),
        (True, 256),
        (False, 256),
    ]
    assert heads[-1].full
    for head in heads:
        assert {0, 40} <= set(head.ids.tolist())
    tiles, single = heads[:2]
    assert tiles.rows == 128
    assert single.rows > 3 * tiles.rows
    assert heads[-1].share == 1.0


def test_each_head_is_timed_with_its_own_ids() -> None:
    found = report()
    for head, seconds in zip(found.heads, found.times.steps, strict=True):
        assert seconds == pytest.approx(0.002 + 1e-5 * head.ids.size)
    assert found.times.verify == pytest.approx(0.002 + 1e-5 * VOCAB * (1 + STEPS))


def test_a_step_of_the_drafter_is_one_layer_and_the_head() -> None:
    for point in report().points:
        assert point.draft_s == pytest.approx(0.001 + 1e-5 * point.subset.ids.size, rel=1e-3)
        assert point.draft_bytes == pytest.approx(1_000 + 10 * point.subset.rows)


def test_the_gain_is_that_of_a_chain_whose_tokens_lie_outside_sometimes() -> None:
    found = report(code=falling()[::-1].copy())
    point, full = found.points[0], found.full
    assert full.coverage == full.acceptance / 0.7 == 1.0
    accepted = 0.7 * point.coverage
    efficiency = 1 + accepted + accepted**2 + accepted**3 + accepted**4
    expected = mbsu(efficiency, STEPS, Weights(1_000 + 1_280.0), Weights(8_400.0)).streamed
    assert point.mbsu.streamed == pytest.approx(expected)
    assert found.gain(point).streamed == pytest.approx(expected / full.mbsu.streamed)
    assert found.gain(point).parameters < 1.0  # the head is the embedding: it stays a parameter
    assert point.tokens_per_s == pytest.approx(efficiency / (STEPS * point.draft_s + found.times.verify))
    assert point.by_category["chat"] > 2 * point.by_category["code"]


def test_the_best_head_is_chosen_and_the_reason_has_its_figures() -> None:
    found = report()
    covering = [point for point in found.points if point.coverage >= 0.95]
    assert 1 < len(covering) < len(found.points)
    assert found.chosen in covering
    assert found.chosen.tokens_per_s >= 0.99 * max(point.tokens_per_s for point in covering)
    assert not found.chosen.subset.full
    assert f"{found.chosen.subset.ids.size:,} ids" in found.reason()
    assert f"{found.chosen.coverage:.1%}" in found.reason()


def test_a_head_that_loses_more_than_it_saves_is_not_chosen() -> None:
    counts = np.ones(VOCAB, dtype=np.int64)
    heads = subsets(counts, ALWAYS, [64])
    times = StepTimes([1.0, 1.0, 1.0], 1.0)
    found = TrimReport("m", 2, PassWeights(10_000, 6_400), {"": counts}, heads, times, 640)
    assert found.chosen.subset.full
    assert "full head" in found.reason()


def test_a_model_whose_head_cannot_be_trimmed_is_refused() -> None:
    forward = without_exits(MarkovForward())
    with pytest.raises(UnsupportedError, match="cannot be trimmed"):
        time_steps(forward, [Subset(np.arange(24), True, 24)], repeat=1, progress=lambda *_: None)


def test_the_report_has_every_head_for_machines() -> None:
    facts = report().as_json()
    assert len(facts["heads"]) == 7
    assert facts["heads"][0].keys() >= {"ids", "coverage", "draft_step_ms", "mbsu", "tokens_per_s"}
    assert facts["chosen"]["mbsu_gain"] > 0
