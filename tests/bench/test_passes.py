"""Costs of passes: the order of the rounds, ratios within a round, and the fraction of the bandwidth."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from edgedec.backends.fake import MarkovForward
from edgedec.bench.passes import KernelReport, PassCost, measure_passes
from edgedec.bench.summary import Spread
from edgedec.core.errors import UsageError
from edgedec.core.types import LAST_ROW, HeadRows, Rows


class Slow(MarkovForward):
    """A pass over k tokens takes 10 + k ms of its own clock, twice that in the second measured round."""

    def __init__(self) -> None:
        super().__init__(vocab_size=16, capacity=64, max_pass=16)
        self.now = 0.0
        self.fed: list[tuple[int, int, int]] = []

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        start = self.length
        head = super().extend(tokens, parents=parents, rows=rows)
        self.fed.append((start, len(tokens), len(head)))
        self.now += (0.010 + len(tokens) * 0.001) * (2 if 7 <= len(self.fed) - 1 <= 9 else 1)
        return head


def measure(
    forward: Slow, counts: Sequence[int], *, resident: int = 5, repeat: int = 3
) -> tuple[PassCost, ...]:
    return measure_passes(
        forward,
        counts,
        resident=resident,
        repeat=repeat,
        clock=lambda: forward.now,
        progress=lambda done, total: None,
    )


def test_every_round_has_every_size_with_all_heads_at_the_same_context() -> None:
    forward = Slow()
    measure(forward, [4, 16], repeat=2)
    assert forward.fed[0] == (5 - 5, 5, 1)  # filling the cache
    assert [(start, rows - tokens) for start, tokens, rows in forward.fed[1:]] == [(5, 0)] * 9
    sizes = [tokens for _, tokens, _ in forward.fed[1:]]
    assert sizes == [1, 4, 16, 4, 16, 1, 16, 1, 4]


def test_ratios_are_taken_within_a_round() -> None:
    one, four = measure(Slow(), [4, 1, 4])[:2]
    assert (one.tokens, four.tokens) == (1, 4)
    assert one.ms.median == pytest.approx(11)
    assert one.relative == Spread(1.0, 1.0, 1.0)
    # One round was twice as slow throughout; a ratio of medians over all rounds would not notice it either,
    # but its quartiles would.
    assert four.relative.low == pytest.approx(14 / 11)
    assert four.relative.high == pytest.approx(14 / 11)


def test_what_does_not_fit_is_refused_before_measuring() -> None:
    forward = Slow()
    with pytest.raises(UsageError, match="1 to 16 tokens"):
        measure(forward, [17])
    with pytest.raises(UsageError, match="60 resident tokens and 16"):
        measure(forward, [16], resident=60)
    assert forward.fed == []


def test_the_fraction_of_the_bandwidth() -> None:
    cost = PassCost(1, Spread(50.0, 49.0, 52.0), Spread(1.0, 1.0, 1.0))
    report = KernelReport("m", "avx2", 2, 128, weight_bytes=10**9, bandwidth_gb_s=40.0, passes=(cost,))
    assert report.bandwidth_fraction == pytest.approx(0.5)  # 1 GB in 50 ms is 20 GB/s
    facts = report.as_json()
    assert facts["passes"] == [
        {
            "tokens": 1, "ms": 50.0, "relative": 1.0, "ms_low": 49.0, "ms_high": 52.0,
            "relative_low": 1.0, "relative_high": 1.0,
        }
    ]  # fmt: skip
