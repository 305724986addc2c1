"""Joules of ``bench memory`` and ``bench accuracy``: added up by source, cut out of requests, and printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgedec.bench.harness.energy import EnergyProbe
from edgedec.bench.harness.journal import SideAnswer
from edgedec.bench.harness.saved_lines import SavedLines
from edgedec.bench.studies import random_sessions as study
from edgedec.bench.studies.energies import (
    Spent,
    energies_of_replies,
    energies_of_requests,
    energies_of_windows,
)
from edgedec.bench.studies.faithful import TextWindow, WindowRead, compare_logits
from edgedec.bench.studies.long_chat import ChatTurn, LongChatReport
from edgedec.bench.studies.peak_memory import MemorySide, measure_memory
from edgedec.bench.studies.random_sessions import (
    RandomSession,
    SessionsReport,
    SessionsStudy,
    random_sessions,
)
from edgedec.bench.studies.reply_energies import ReplyEnergy, energies_of_stats
from edgedec.bench.studies.sampling import Said, SettingResult, energies_of_settings
from edgedec.core.errors import BadFileError
from edgedec.core.progress import silent
from edgedec.export import export_gguf
from edgedec.metrics.mbsu import Weights
from edgedec.metrics.measures import Energy
from edgedec.metrics.traffic import Traffic, Work, decoding_work
from edgedec.sampling import DrawParams
from edgedec.telemetry.energy import NoMeter, estimate
from edgedec.telemetry.energy.estimate import MODEL
from tests.bench.support import Fakes
from tests.bench.test_commands import bench, report
from tests.bench.test_energy import Steady
from tests.bench.test_questions import written
from tests.fixtures.tiny_gguf import write_tiny

TRAFFIC = Traffic(Weights(1000.0), slot_bytes=10, window_slot_bytes=0, products=500)


def measured(joules_per_token: float, source: str = "RAPL") -> dict[str, Any]:
    return Energy(source, False, 99.0, joules_per_token, 3.0).as_json()


def estimated(joules_per_token: float) -> dict[str, Any]:
    each = (joules_per_token, 0.5 * joules_per_token, 2 * joules_per_token)
    return Energy(MODEL, True, 99.0, each[0], None, 50.0, 200.0, each[1], each[2], "no meter").as_json()


def read(energy: dict[str, Any], tokens: int) -> ReplyEnergy | None:
    return ReplyEnergy.of(energy, tokens)


def test_replies_of_one_meter_count_by_their_tokens_after_the_first() -> None:
    """Two tokens of 3 J and eight of 1 J are 14 J by 10; the prompt's joules are left out."""
    found = energies_of_stats({"a": [read(measured(3.0), 3), read(measured(1.0), 9)]})
    assert found.as_json() == {
        "sides": {
            "a": {"source": "RAPL", "estimated": False, "joules_per_token": 1.4, "low": None, "high": None}
        }
    }
    assert found.heading() == "mJ/token: above idle power, measured by RAPL"


def test_an_estimate_keeps_its_label_its_bounds_and_its_reason() -> None:
    found = energies_of_stats({"a": [read(estimated(3.0), 3), read(estimated(1.0), 9)]})
    side = found.as_json()["sides"]["a"]
    assert (side["source"], side["estimated"]) == (MODEL, True)
    assert (side["joules_per_token"], side["low"], side["high"]) == (1.4, 0.7, 2.8)
    assert found.by_side["a"].words() == "~1400.0 (700.0-2800.0)"
    assert "an estimate with its bounds, not a measurement" in found.heading()
    assert found.heading().endswith("; no meter")


def test_measurements_and_estimates_never_make_one_figure() -> None:
    sides = {"a": [read(measured(3.0), 5), read(estimated(1.0), 5)], "b": [read(estimated(2.0), 5)]}
    found = energies_of_stats(sides)
    assert {name: one.joules for name, one in found.by_side.items()} == {
        "a, by RAPL": pytest.approx(3.0), "a, estimated": pytest.approx(1.0),
        "b, estimated": pytest.approx(2.0),
    }  # fmt: skip
    assert [one.estimated for one in found.by_side.values()] == [False, True, True]
    assert "each by itself" in found.heading()
    assert f"RAPL, {MODEL}; no meter" in found.heading()
    two = energies_of_stats({"a": [read(measured(3.0), 5), read(measured(1.0, "battery"), 5)]})
    assert list(two.by_side) == ["a, by RAPL", "a, by battery"]


def test_replies_of_one_token_or_without_figures_tell_nothing() -> None:
    single = Energy(MODEL, True, 1.0, None).as_json()
    assert ReplyEnergy.of(single, 1) is ReplyEnergy.of(None, 9) is ReplyEnergy.of({}, 9) is None
    found = energies_of_stats({"a": [None]})
    assert found.as_json() == {"sides": {}}
    assert found.heading() == "mJ/token: neither measured nor estimated"


def test_sessions_a_chat_and_settings_add_up_their_replies() -> None:
    sessions = [
        RandomSession((), 9, 0, completion_tokens=count, energy=measured(joules))
        for count, joules in ((3, 3.0), (9, 1.0))
    ]
    refused = RandomSession((), 9, 10)
    told = SessionsReport("tiny", "", [*sessions, refused]).as_json()
    assert told["energy"]["sides"]["edgedec"]["joules_per_token"] == 1.4
    assert told["sessions"][0]["energy"] == measured(3.0)
    turns = [ChatTurn(1, 1, [0] * count, energy=measured(joules)) for count, joules in ((3, 3.0), (9, 1.0))]
    chat = LongChatReport({"capacity": 99, "memory": {}}, [*turns, ChatTurn(1, 1, refused="too long")])
    assert chat.as_json()["energy"] == told["energy"]
    said = [
        Said(count, 0.0, False, False, -1.0, None, read(measured(joules), count))
        for count, joules in ((3, 3.0), (9, 1.0))
    ]
    greedy, hot = DrawParams(), DrawParams(temperature=1.0)
    settings = [SettingResult(greedy, tuple(said[:1])), SettingResult(hot, tuple(said))]
    by_setting = energies_of_settings([*settings, SettingResult(greedy, tuple(said[1:]))]).by_side
    assert {name: one.joules for name, one in by_setting.items()} == pytest.approx(
        {"greedy": 1.4, "temperature 1": 1.4}
    )


def test_saved_sessions_keep_their_joules_and_those_without_any_still_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(model: str, budget: int, options: tuple[str, ...], *rest: object) -> RandomSession:
        return RandomSession(options, budget, 0, completion_tokens=5, energy=estimated(2.0))

    monkeypatch.setattr(study, "_budgets", lambda model, draft: (100.0, 200.0))
    monkeypatch.setattr(study, "_run", run)
    asked, file = SessionsStudy("tiny", ["auto"], 2), tmp_path / "sessions.jsonl"
    first = random_sessions(asked, silent, SavedLines({}, file))
    assert random_sessions(asked, silent, SavedLines({}, file)).sessions == first.sessions
    head, one, two = file.read_text(encoding="utf-8").splitlines()
    before = {name: value for name, value in json.loads(one).items() if name != "energy"}
    file.write_text(f"{head}\n{json.dumps(before)}\n{two}\n", encoding="utf-8")
    again = random_sessions(asked, silent, SavedLines({}, file))
    assert [run.energy is None for run in again.sessions] == [True, False]
    assert again.energies == first.energies
    broken = json.loads(two) | {"energy": {"joules_per_token": 1.0}}
    file.write_text(f"{head}\n{json.dumps(broken)}\n", encoding="utf-8")
    with pytest.raises(BadFileError):
        random_sessions(asked, silent, SavedLines({}, file))


def test_requests_are_measured_by_one_meter_or_all_estimated() -> None:
    work = decoding_work(4, [(0, 0)] * 2, 0)
    metered = {"a": [Spent(2, work, 0.0, 6.0, "RAPL")] * 2, "b": [Spent(3, Work(), 0.0, 6.0, "RAPL")]}
    found = energies_of_requests(metered, {"a": TRAFFIC}, "")
    assert not found.estimated
    assert {name: one.joules for name, one in found.by_side.items()} == {"a": 3.0, "b": 2.0}
    mixed = energies_of_requests({**metered, "b": [Spent(3, Work())]}, {"a": TRAFFIC, "b": TRAFFIC}, "")
    assert mixed.estimated
    assert list(mixed.by_side) == ["a"]  # passes of b are not known, so nothing is made up
    by_hand = estimate(2 * 1000 + 10 * (5 + 6), 2 * 2 * 500)
    assert mixed.by_side["a"].joules == pytest.approx(by_hand.joules / 2)


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
    reads = {"a": [WindowRead(6, [[4, 4], [2, 6]])], "other": [WindowRead(6)]}
    found = energies_of_windows(reads, {"a": TRAFFIC, "other": TRAFFIC}, 0, "no meter")
    by_hand = estimate(2 * 1000 + 10 * (4 + 6), 2 * 6 * 500)
    assert list(found.by_side) == ["a"]
    assert found.by_side["a"].joules == pytest.approx(by_hand.joules / 6)
    assert found.heading("mJ/token read").startswith("mJ/token read: an estimate")
    joules = {name: [WindowRead(6, [], 12.0, "RAPL")] for name in reads}
    both = energies_of_windows(joules, {}, 0, "")
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
    held = [MemorySide(fakes.side("llama.cpp", seconds=0.1))]
    found = measure_memory(held, [1, 2], 3, silent, steady)["llama.cpp"].reply
    assert (found.meter, found.rounds) == ("steady", [[0, 0]] * 2)
    shown = energies_of_replies({"llama.cpp": [found]}, {}, 0, "").by_side["llama.cpp"]
    assert (shown.source, shown.estimated) == ("steady", False)
    assert shown.joules == pytest.approx(10.0 * 0.1 / 2)
    sides = [fakes.side("side")]
    reads = compare_logits(fakes.side("exact"), sides, [TextWindow((1, 2, 3), 4)], silent, steady).reads
    assert {name: one.meter for name, (one,) in reads.items()} == {"exact": "steady", "side": "steady"}
    assert all((one.joules or 0.0) > 0.99 for (one,) in reads.values())  # two readings at least


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("energies")
    export_gguf(write_tiny(folder / "tiny.gguf"), folder / "bundle")
    (folder / "text.txt").write_text("The cat sat on the mat. The dog did not. " * 20, encoding="utf-8")
    written(folder / "q.jsonl", [{"question": "How many?", "answer": "#### 4"}])
    return folder


@pytest.fixture
def unmetered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedec.bench.harness.energy.open_meter", lambda: NoMeter(("no meter here",)))
    monkeypatch.setattr("edgedec.assemble.run_context.open_meter", lambda: NoMeter(("no meter here",)))


TASKS = {
    "quality": (["--input", "q.jsonl", "--max-tokens", "6", "--when-full", "slide", "--context", "64"],
                ["fp16", "int8", "fp16 slide 64", "int8 slide 64"]),
    "sampling": (["--limit", "1", "--max-tokens", "6", "--try", "greedy"], ["greedy"]),
    "needle": (["--input", "text.txt", "--tokens", "100", "--context", "64", "--depths", "1",
                "--repeat", "1"],
               ["full", "slide", "speckv"]),
    "faithful": (["--input", "text.txt", "--tokens", "60", "--window", "32", "--reference", "fp16",
                  "--kv", "int8"], ["edgedec", "fp16"]),
}  # fmt: skip


@pytest.mark.usefixtures("unmetered")
@pytest.mark.parametrize("task", TASKS)
def test_every_task_of_accuracy_reports_joules_with_their_label(folder: Path, task: str) -> None:
    given, sides = TASKS[task]
    args = [str(folder / one) if one.endswith((".txt", ".jsonl")) else one for one in given]
    whole = ["accuracy", "--task", task, "-m", str(folder / "bundle"), "--threads", "1", *args]
    found = report(bench(folder, *whole, "--json"))["energy"]
    assert sorted(found["sides"]) == sorted(sides)
    for side in found["sides"].values():
        assert (side["source"], side["estimated"]) == (MODEL, True)
        assert 0 <= side["low"] <= side["joules_per_token"] <= side["high"] > 0
    assert found["reason"]


@pytest.mark.usefixtures("unmetered")
@pytest.mark.parametrize("way", ["--chat", "--peer"])
def test_a_chat_and_peers_report_joules_with_their_label(
    folder: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    from edgedec.bench.harness import runtimes

    monkeypatch.setattr(runtimes, "peer_side", lambda name, run: fakes.side(name))
    model = ["-m", str(folder / "bundle"), "--threads", "1", "--max-tokens", "6"]
    args = ["--chat", "--turns", "2"] if way == "--chat" else ["--peer", "llama.cpp", "--prompt-tokens", "9"]
    if way == "--peer":
        args += ["--gguf", str(folder / "tiny.gguf")]
    found = report(bench(folder, "memory", *model, *args, "--json"))["energy"]["sides"]
    peers = ["edgedec", "edgedec+auto", "llama.cpp", "llama.cpp as mapped"]
    assert sorted(found) == (["edgedec"] if way == "--chat" else peers)
    assert all(side["estimated"] and side["joules_per_token"] > 0 for side in found.values())
