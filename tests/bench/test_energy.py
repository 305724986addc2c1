"""Energy in benches: one meter for all sides, or one estimate, never both in a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgedec.bench.harness.energy import EnergyProbe, MeterWatch, TokenEnergy, energies_of_replies
from edgedec.bench.harness.journal import SideAnswer
from edgedec.metrics.mbsu import Weights
from edgedec.metrics.traffic import Traffic, Work, decoding_work
from edgedec.telemetry.energy import NoMeter, Reading, estimate
from edgedec.telemetry.energy.estimate import MODEL
from tests.bench.test_commands import bench, report

TRAFFIC = Traffic(Weights(1000.0), slot_bytes=10, window_slot_bytes=0, products=500)


def answer(side: str, rounds: list[list[int]], **facts: object) -> SideAnswer:
    tokens = list(range(1 + sum(1 + right for _, right in rounds)))
    return SideAnswer("q", 0, side, 1, tokens, 0.5, 2.0, rounds=rounds, prompt_tokens=4, **facts)  # type: ignore[arg-type]


def test_the_joules_of_decoding_are_cut_out_of_the_readings_and_idle_power_is_left_out() -> None:
    readings = [Reading(at, 10.0 * at) for at in (0.0, 1.0, 2.0, 3.0)]
    assert MeterWatch(4.0, readings).last(1.5) == pytest.approx(15.0 - 6.0)
    assert MeterWatch(0.0, readings).last(9.0) == pytest.approx(30.0)


def test_an_interrupted_reading_measures_nothing() -> None:
    readings = [Reading(0.0, 0.0), Reading(1.0, 9.0), Reading(2.0, 20.0, interruptions=1)]
    assert MeterWatch(0.0, readings).last(1.5) is None
    assert MeterWatch(0.0, readings[:1]).last(1.0) is None


def test_without_a_meter_nothing_is_read() -> None:
    probe = EnergyProbe(NoMeter(("none here",)))
    with probe.watch() as watch:
        pass
    assert watch.readings == []
    assert (probe.source, probe.meter, probe.reason, probe.idle_w) == (MODEL, "", "none here", None)


class Steady:
    """Ten watts of the time of a clock that goes on a tenth of a second a reading."""

    source, least_s, interruptions = "steady", 0.001, 0

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def read(self) -> dict[str, float]:
        self.now += 0.1
        return {"all": 10.0 * self.now}

    def watts(self) -> float | None:
        return None


def test_passes_of_decoding_by_hand() -> None:
    """Behind 4 tokens: a pass over 3, of which one draft is right, then one over 1."""
    assert decoding_work(4, [(2, 1), (0, 0)], 0) == Work(2, 4, 7 + 7, 0)
    assert decoding_work(4, [(2, 1), (0, 0)], 5) == Work(2, 4, 14, 10)


def test_no_drafts_cost_what_plain_decoding_costs() -> None:
    plain, undrafted = [answer("a", [[0, 0]] * 6)], [answer("b", [[0, 0]] * 6)]
    found = energies_of_replies({"a": plain, "b": undrafted}, {"a": TRAFFIC, "b": TRAFFIC}, 0, "no meter")
    assert found.by_side["a"] == found.by_side["b"]
    assert found.estimated
    assert found.reason == "no meter"
    by_hand = estimate(6 * 1000 + 10 * sum(range(5, 11)), 2 * 6 * 500)
    assert found.by_side["a"].joules == pytest.approx(by_hand.joules / 6)


def test_right_drafts_save_bytes_and_wrong_ones_cost_operations() -> None:
    sides = {"plain": [[0, 0]] * 6, "right": [[2, 2]] * 2, "wrong": [[2, 0]] * 6}
    answers = {side: [answer(side, rounds)] for side, rounds in sides.items()}
    found = energies_of_replies(answers, dict.fromkeys(sides, TRAFFIC), 0, "").by_side
    assert found["right"].joules < 0.5 * found["plain"].joules
    assert found["wrong"].joules > found["plain"].joules


def test_all_sides_are_measured_or_none() -> None:
    rounds = [[0, 0]] * 4
    measured = {side: [answer(side, rounds, joules=8.0, meter="RAPL")] for side in ("a", "b")}
    found = energies_of_replies(measured, {"a": TRAFFIC}, 0, "")
    assert not found.estimated
    assert found.by_side["b"] == TokenEnergy("RAPL", False, 2.0)
    for other in (answer("b", rounds), answer("b", rounds, joules=8.0, meter="battery")):
        mixed = energies_of_replies({**measured, "b": [other]}, {"a": TRAFFIC}, 0, "")
        assert mixed.estimated
        assert list(mixed.by_side) == ["a"]


def test_counters_that_stand_still_are_no_measurement() -> None:
    still = {"a": [answer("a", [[0, 0]] * 4, joules=0.0, meter="RAPL")]}
    found = energies_of_replies(still, {"a": TRAFFIC}, 0, "")
    assert found.estimated
    assert "stand still" in found.reason


def test_benches_print_joules_with_their_label(folder: Path) -> None:
    (folder / "prompt.txt").write_text("The cat sat on the mat.\n", encoding="utf-8")
    model = ["-m", str(folder / "bundle"), "--threads", "1"]
    args = [*model, "--max-tokens", "4", "--input", str(folder / "prompt.txt")]
    speed = report(bench(folder, "speed", *args, "--repeat", "1", "--json"))
    found = speed["energy"]["sides"]["edgedec"]
    assert found["joules_per_token"] > 0
    roof = speed["roof"]["edgedec"]
    assert roof["bandwidth_gb_per_s"] == 10.0
    assert 0 < roof["share"] == pytest.approx(roof["gb_per_s"] / 10.0, abs=1e-3)
    passes = report(bench(folder, "kernels", *model, "--tokens", "1,4", "--repeat", "1", "--json"))
    one, four = (passes["energy"]["sides"][tokens]["joules_per_token"] for tokens in ("1", "4"))
    assert 0 < four < one
    drafts = bench(folder, "drafts", *args, "--draft", "lookup")
    assert drafts.exit_code == 0, drafts.output
    assert "mJ/token" in drafts.stdout
    kept = json.loads((folder / "home" / "costs" / "bandwidth.json").read_text())
    assert kept == {"1": 10.0}
