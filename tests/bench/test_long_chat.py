"""``edgedec bench memory --chat`` on a model of random weights, and what its report makes of turns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgedec.bench.harness import runtimes
from edgedec.bench.studies.long_chat import ChatTurn, LongChatReport
from tests.bench.test_commands import bench, report
from tests.cli.support import assert_one_line
from tests.fixtures.tiny_models import tiny_bundle

MB = 1_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chat")
    tiny_bundle(folder).rename(folder / "bundle")
    (folder / "lines.txt").write_text("The cat sat.\nAnd the dog?\n", encoding="utf-8")
    return folder


def arguments(folder: Path, *more: str) -> list[str]:
    model = ["-m", str(folder / "bundle"), "--threads", "1", "--max-tokens", "8"]
    return ["memory", "--chat", *model, "--input", str(folder / "lines.txt"), *more]


def test_a_chat_drops_turns_stays_flat_and_survives_a_kill(folder: Path, tmp_path: Path) -> None:
    given = ["--turns", "16", "--context", "160", "--memory", "300MB", "--kill", "--seed", "2"]
    facts = report(bench(folder, *arguments(folder, *given, "--json")))
    assert (facts["turns"], facts["context"], facts["too_long"]) == (16, 160, 0)
    assert facts["dropped_turns"] > 3
    assert facts["settled_turn"] == 8
    assert facts["settled_rss_bytes"] == max(facts["rss_bytes"][:8])
    assert facts["growth_bytes"] == max(facts["rss_bytes"][8:]) - facts["settled_rss_bytes"] < 2 * MB
    assert max(facts["rss_bytes"]) <= facts["peak_rss_bytes"] <= facts["memory"]["planned_bytes"]
    assert max(facts["prompt_tokens"]) < 160
    assert facts["last_by_first_quarter"] > 0
    killed = facts["killed"]
    assert 1 <= killed["after_turn"] <= 15
    assert killed["same"] == killed["compared"] == min(5, 16 - killed["after_turn"])


def test_turns_that_do_not_fit_and_a_restart_that_forgets(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "long.txt").write_text("The cat sat.\n" + "word " * 400 + "\n", encoding="utf-8")
    given = ["--input", str(tmp_path / "long.txt"), "--turns", "3", "--context", "160"]
    told = bench(folder, *arguments(folder, *given)).stdout
    assert "mJ/token: an estimate with its bounds, not a measurement" in told
    assert "too long for the context: 1\n" in told
    peer = (runtimes.PROGRAMS / "edgedec_peer.py").read_text(encoding="utf-8")
    forgetful = tmp_path / "edgedec_peer.py"
    forgetful.write_text(peer.replace("self._one_chat().restore(path)", "pass"))
    monkeypatch.setattr(runtimes, "PROGRAMS", tmp_path)
    result = bench(folder, *arguments(folder, "--turns", "4", "--kill", "--json"))
    assert result.exit_code == 1
    assert "continued with other replies" in result.stderr
    killed = json.loads(result.stdout)["killed"]
    assert killed["same"] < killed["compared"]


def test_equal_contexts_are_compared() -> None:
    def turn(context: int, ms: float, rss: int) -> ChatTurn:
        return ChatTurn(rss, rss, [1] * 11, context, 0.1, ms / 100)

    early = [turn(100, 10.0, 50), turn(300, 20.0, 60), turn(990, 50.0, 70)]
    late = [turn(110, 12.0, 90), turn(320, 20.0, 91), turn(600, 1.0, 92)]
    middle = [turn(100, 99.0, 80)] * 6
    found = LongChatReport({"capacity": 1000}, [*early, *middle, *late])
    assert [(band.low, band.high, band.ratio) for band in found.bands()] == [
        (0, 125, pytest.approx(1.2)), (250, 375, pytest.approx(1.0)),
    ]  # fmt: skip
    assert found.slowdown == pytest.approx(1.1)
    assert found.settled_turn == 6
    assert found.growth == 92 - 80
    assert LongChatReport({"capacity": 1000}, [turn(1, 1.0, 1)]).growth == 0


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (["--memory", "1MB"], 10, ["does not fit 1.0 MB"]),
        (["--turns", "1", "--kill"], 2, ["two turns"]),
        (["--draft", "crystal-ball"], 2, ["no drafter 'crystal-ball'"]),
        (["--input", "nowhere.txt"], 3, ["nowhere.txt"]),
    ],
)
def test_errors_are_one_line(folder: Path, args: list[str], status: int, words: list[str]) -> None:
    assert_one_line(bench(folder, *arguments(folder, *args)), status, *words)
