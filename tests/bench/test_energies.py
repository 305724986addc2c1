"""Joules of ``bench memory`` and ``bench accuracy``: cut out of requests, added up, and printed."""

from __future__ import annotations

import pytest

from edgedec.bench.harness.energy import EnergyProbe, energies_of_replies
from edgedec.bench.harness.journal import SideAnswer
from edgedec.bench.harness.study import StudyRow, StudySide
from edgedec.bench.studies.faithful import TextWindow, compare_logits, energies_of_windows
from edgedec.bench.studies.peak_memory import measure_memory
from edgedec.core.progress import silent
from edgedec.metrics.mbsu import Weights
from edgedec.metrics.traffic import Traffic, Work, decoding_work
from edgedec.telemetry.energy import estimate
from tests.bench.support import Fakes
from tests.bench.test_energy import Steady

TRAFFIC = Traffic(Weights(1000.0), slot_bytes=10, window_slot_bytes=0, products=500)


def test_a_cache_that_evicts_is_read_up_to_its_slots() -> None:
    assert decoding_work(4, [(2, 1), (0, 0)], 0, room=6) == Work(2, 4, 6 + 6, 0)
    reply = SideAnswer("q", 0, "a", 1, [1, 2, 3], 0.1, 0.1, rounds=[[0, 0]] * 2, prompt_tokens=100)
    found = energies_of_replies({"a": [reply]}, {"a": TRAFFIC}, 0, "no meter", {"a": 64}).by_side["a"]
    by_hand = estimate(2 * 1000 + 10 * 2 * 64, 2 * 2 * 500)
    assert found.joules == pytest.approx(by_hand.joules / 2)
    refused = SideAnswer("r", 0, "a", 1, [], 0.0, 0.0, refused="too long")
    both = energies_of_replies({"a": [reply, refused]}, {"a": TRAFFIC}, 0, "no meter", {"a": 64})
    assert both.by_side["a"] == found


def test_windows_are_charged_for_the_tokens_that_are_read() -> None:
    reads = [
        StudyRow((0,), "a", {"tokens": 6, "passes": [[4, 4], [2, 6]]}),
        StudyRow((0,), "other", {"tokens": 6}),
    ]
    found = energies_of_windows(reads, {"a": TRAFFIC, "other": TRAFFIC}, 0, "no meter")
    by_hand = estimate(2 * 1000 + 10 * (4 + 6), 2 * 6 * 500)
    assert list(found.by_side) == ["a"]
    assert found.by_side["a"].joules == pytest.approx(by_hand.joules / 6)
    assert found.heading("mJ/token read").startswith("mJ/token read: an estimate")
    metered = {"tokens": 6, "joules": 12.0, "meter": "RAPL"}
    both = energies_of_windows([StudyRow((0,), name, metered) for name in ("a", "other")], {}, 0, "")
    assert {name: one.joules for name, one in both.by_side.items()} == {"a": 2.0, "other": 2.0}


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> EnergyProbe:
    """A probe of a meter that counts ten watts."""
    monkeypatch.setattr("edgedec.bench.harness.energy.measure_idle", lambda meter: None)
    meter = Steady()
    return EnergyProbe(meter, meter.clock)


def test_a_meter_is_read_around_the_replies_of_peers_and_around_windows(
    fakes: Fakes, steady: EnergyProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fake side says that it decoded for a tenth of a second: 1 J at ten watts, over two tokens."""
    monkeypatch.setattr("edgedec.bench.studies.peak_memory._forget_files", lambda model: None)
    held = [StudySide.of(fakes.side("llama.cpp", seconds=0.1))]
    found = measure_memory(held, [1, 2], 3, silent, steady)[1]["llama.cpp"]
    assert (found.meter, found.rounds) == ("steady", [[0, 0]] * 2)
    shown = energies_of_replies({"llama.cpp": [found]}, {}, 0, "").by_side["llama.cpp"]
    assert (shown.source, shown.estimated) == ("steady", False)
    assert shown.joules == pytest.approx(10.0 * 0.1 / 2)
    sides = [fakes.side("side")]
    reads = compare_logits(fakes.side("exact"), sides, [TextWindow((1, 2, 3), 4)], silent, steady).reads
    assert {row.side: row.took["meter"] for row in reads} == {"exact": "steady", "side": "steady"}
    assert all(row.took["joules"] > 0.99 for row in reads)  # two readings at least
