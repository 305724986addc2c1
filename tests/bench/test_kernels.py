"""Costs of passes: the order of the rounds, ratios within a round, and the fraction of the bandwidth."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from edgedec.backends.fake import MarkovForward
from edgedec.bench.harness.pairing import Spread
from edgedec.bench.harness.runtimes import EDGEDEC
from edgedec.bench.harness.worker import Worker
from edgedec.bench.studies.kernels import (
    KernelReport,
    PassCost,
    PassStudy,
    measure_passes,
    pass_costs,
    peer_costs,
)
from edgedec.core.errors import UsageError
from edgedec.core.rows import LAST_ROW, HeadRows, Rows
from tests.bench.support import Fakes


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
    study = PassStudy(counts, resident, repeat, clock=lambda: forward.now)
    times = measure_passes(forward, [], study, lambda stage, done, total: None)
    assert list(times) == [EDGEDEC]
    return pass_costs(times[EDGEDEC])


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
    assert facts["peers"] == facts["versions"] == {}


def test_peers_take_turns_in_the_same_rounds_on_the_same_tokens(fakes: Fakes) -> None:
    forward, settled = Slow(), list[int]()
    with Worker(fakes.side("theirs", seconds=0.022)) as worker:
        worker.open()
        study = PassStudy([4], 5, 3, lambda: forward.now, lambda: settled.append(len(forward.fed)))
        times = measure_passes(forward, [worker], study, lambda stage, done, total: None)
    asked = fakes.asked()[1:]
    assert (asked[0]["op"], len(asked[0]["tokens"])) == ("fill", 5)
    extended = [line["tokens"] for line in asked[1:]]
    # each pass that counts comes after one over a single token, which does not
    assert [len(tokens) for tokens in extended] == [1, 1, 1, 4, 1, 4, 1, 1, 1, 1, 1, 4, 1, 4, 1, 1]
    assert [rows for _, rows, _ in forward.fed[1:]] == [len(tokens) for tokens in extended]
    assert all(tokens == extended[3][: len(tokens)] for tokens in extended)
    # ours first, theirs first, ... : how many passes of ours were done before each turn
    assert [done - 1 for done in settled[:6]] == [0, 2, 2, 2, 4, 4]
    (one, four), ours = peer_costs(times["theirs"], times[EDGEDEC]), pass_costs(times[EDGEDEC])
    assert (one.cost.tokens, four.cost.tokens) == (1, 4)
    assert (one.cost.ms.median, four.cost.relative.median) == (pytest.approx(22), 1.0)
    assert four.ratio.median == pytest.approx(22 / ours[1].ms.median)
    report = KernelReport("m", "avx2", 2, 5, 1, 1.0, ours, {"theirs": (one, four)}, {"theirs": "fake 1.0"})
    (first, second) = report.as_json()["peers"]["theirs"]  # type: ignore[index]
    assert (first["tokens"], first["ms"], first["relative"], second["relative"]) == (1, 22.0, 1.0, 1.0)
    assert set(first) == set(ours[0].as_json()) | {"ratio", "ratio_low", "ratio_high"}
