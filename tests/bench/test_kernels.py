"""Costs of passes: the order of the rounds, ratios within a round, and the fraction of the bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from edgedec.bench.harness.energy import EnergyProbe
from edgedec.bench.harness.journal import Journal
from edgedec.bench.harness.pairing import Spread
from edgedec.bench.harness.runtimes import EDGEDEC
from edgedec.bench.harness.study import StudyRow
from edgedec.bench.studies.kernels import (
    KernelReport,
    PassCost,
    PassStudy,
    energies_of_passes,
    measure_passes,
    pass_costs,
    peer_costs,
    times_of,
)
from edgedec.core.errors import UsageError
from edgedec.metrics.mbsu import Weights
from edgedec.metrics.traffic import Traffic
from edgedec.telemetry.energy import NoMeter, estimate
from tests.bench.support import Fakes

TRAFFIC = Traffic(Weights(1000.0), slot_bytes=10, window_slot_bytes=2, products=500)


def study(counts: Sequence[int], resident: int = 5, repeat: int = 3) -> PassStudy:
    return PassStudy(counts, resident, repeat, 16, lambda: None, EnergyProbe(NoMeter(("none here",))))


def measure(fakes: Fakes, asked: PassStudy, *others: str) -> Journal[StudyRow]:
    sides = [fakes.side(name, seconds=0.01 if name == EDGEDEC else 0.022) for name in (EDGEDEC, *others)]
    return measure_passes(sides, asked, lambda stage, done, total: None)


def test_every_round_has_every_size_at_the_same_context(fakes: Fakes) -> None:
    measure(fakes, study([4, 16], repeat=2))
    opened, filled, *passes = fakes.asked()
    assert (opened["op"], filled["op"], len(filled["tokens"])) == ("open", "fill", 5)
    assert [len(one["tokens"]) for one in passes] == [1, 4, 16, 4, 16, 1, 16, 1, 4]
    longest = max((one["tokens"] for one in passes), key=len)
    assert all(one["tokens"] == longest[: len(one["tokens"])] for one in passes)


def test_ratios_are_taken_within_a_round() -> None:
    """One round was twice as slow throughout; a ratio of medians would not notice it, but its quartiles."""
    one, four = pass_costs({1: [0.011, 0.022, 0.011], 4: [0.014, 0.028, 0.014]})
    assert (one.tokens, four.tokens) == (1, 4)
    assert one.ms.median == pytest.approx(11)
    assert one.relative == Spread(1.0, 1.0, 1.0)
    assert four.relative.low == pytest.approx(14 / 11)
    assert four.relative.high == pytest.approx(14 / 11)


def test_passes_behind_several_numbers_of_tokens_are_named_by_them(fakes: Fakes) -> None:
    asked = replace(study([4], resident=20), named=True)
    journal = measure(fakes, asked)
    one, four = pass_costs(times_of(journal, EDGEDEC), asked.behind)
    assert (one.name, four.name) == ("1 behind 20", "4 behind 20")
    assert four.as_json()["resident_tokens"] == 20
    assert set(energies_of_passes(journal, asked, TRAFFIC, 8, "").by_side) == {one.name, four.name}


def test_the_round_that_warms_up_does_not_count(fakes: Fakes) -> None:
    times = times_of(measure(fakes, study([4], repeat=3)), EDGEDEC)
    assert {size: len(took) for size, took in times.items()} == {1: 3, 4: 3}


def test_an_estimate_is_that_of_the_bytes_and_operations_of_a_pass(fakes: Fakes) -> None:
    asked = study([4], resident=20)
    found = energies_of_passes(measure(fakes, asked), asked, TRAFFIC, 8, "none here")
    by_hand = estimate(1000 + 10 * 24 + 2 * 8, 2 * 4 * 500)
    assert found.by_side["4"].joules == pytest.approx(by_hand.joules / 4)
    assert found.by_side["4"].joules < found.by_side["1"].joules
    assert found.reason == "none here"


def test_a_meter_counts_each_pass_but_those_of_the_first_round() -> None:
    asked, journal = study([4], resident=20), Journal[StudyRow]()
    for turn, joules in ((0, 99.0), (1, 5.0), (2, 5.0)):
        for size, share in ((1, 1.0), (4, 1.6)):
            took = {"seconds": 1.0, "joules": joules * share, "meter": "watts"}
            journal.add(StudyRow((turn, size), EDGEDEC, took))
    found = energies_of_passes(journal, asked, TRAFFIC, 0, "")
    assert not found.estimated
    assert found.by_side["1"].joules == pytest.approx(5.0)
    assert found.by_side["4"].joules == pytest.approx(8.0 / 4)


def test_a_pass_that_is_too_long_is_refused(fakes: Fakes) -> None:
    with pytest.raises(UsageError, match="1 to 64 tokens"):
        measure(fakes, study([65]))


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
    journal = measure(fakes, study([4]), "theirs")
    for side in (EDGEDEC, "theirs"):
        extended = [one["tokens"] for one in fakes.asked("extend") if one["name"] == side]
        # each pass that counts comes after one over a single token, which does not
        assert [len(tokens) for tokens in extended] == [1, 1, 1, 4, 1, 4, 1, 1, 1, 1, 1, 4, 1, 4, 1, 1]
        assert all(tokens == extended[3][: len(tokens)] for tokens in extended)
    order = [one["name"] for one in fakes.asked("extend")][::2]
    assert order[:6] == [EDGEDEC, "theirs", "theirs", EDGEDEC, "theirs", EDGEDEC]
    ours = pass_costs(times_of(journal, EDGEDEC))
    one, four = peer_costs(times_of(journal, "theirs"), times_of(journal, EDGEDEC))
    assert (one.cost.tokens, four.cost.tokens) == (1, 4)
    assert (one.cost.ms.median, four.cost.relative.median) == (pytest.approx(22), 1.0)
    assert four.ratio.median == pytest.approx(2.2)
    report = KernelReport("m", "avx2", 2, 5, 1, 1.0, ours, {"theirs": (one, four)}, {"theirs": "fake 1.0"})
    (first, second) = report.as_json()["peers"]["theirs"]  # type: ignore[index]
    assert (first["tokens"], first["ms"], first["relative"], second["relative"]) == (1, 22.0, 1.0, 1.0)
    assert set(first) == set(ours[0].as_json()) | {"ratio", "ratio_low", "ratio_high"}
