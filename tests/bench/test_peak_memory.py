"""``edgedec bench memory --peer``: a tiny model beside a runtime that computes nothing and takes memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.bench.harness import runtimes
from tests.bench.support import Fakes, estimated
from tests.bench.test_commands import bench, report
from tests.cli.support import assert_one_line

MB = 1_000_000


def arguments(folder: Path, *more: str) -> list[str]:
    files = ["-m", str(folder / "tiny.gguf")]
    return ["memory", *files, "--threads", "1", *more]


@pytest.mark.usefixtures("unmetered")
def test_each_side_is_measured_alone(folder: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"llama.cpp": fakes.side("llama.cpp", megabytes=400), "transformers": fakes.side("transformers")}
    monkeypatch.setattr(runtimes, "peer_side", lambda name, run: made[name])
    given = ["--peer", "llama.cpp", "--peer", "transformers", "--memory", "300MB"]
    facts = report(bench(folder, *arguments(folder, *given, "--json")))
    found = facts["sides"]
    assert list(found) == [
        "edgedec", "edgedec+auto", "edgedec+auto at 300MB",
        "llama.cpp", "llama.cpp as mapped", "transformers",
    ]  # fmt: skip
    assert {*estimated(facts)} == {*found} - {"transformers"}  # nobody knows what it reads
    assert (facts["context"], facts["prompt_tokens"], facts["max_tokens"]) == (256, 192, 64)
    for side in found.values():
        assert 0 < side["loaded_peak_rss_bytes"] <= side["peak_rss_bytes"]
        assert side["mapped_bytes"] + side["private_bytes"] <= 1.01 * side["peak_rss_bytes"]
    heavy = found["llama.cpp"]
    assert heavy["private_bytes"] > 400 * MB
    ratio = heavy["peak_rss_bytes"] / found["edgedec"]["peak_rss_bytes"]
    assert heavy["peak_by_edgedec"] == pytest.approx(ratio, abs=1e-3)
    assert ratio > 3
    assert found["edgedec"]["peak_by_edgedec"] == 1.0
    groups = {side["group_peak_bytes"] is None for side in found.values()}
    assert len(groups) == 1
    if groups == {False}:
        assert heavy["group_peak_bytes"] > 400 * MB > found["edgedec"]["group_peak_bytes"]
    opened = fakes.asked("open")
    assert [line.get("repack") for line in opened] == [None, None, False, False, None, None]
    prompts = [line["tokens"] for line in fakes.asked("generate")]
    assert [len(prompt) for prompt in prompts] == [192] * 3


def test_the_table(folder: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "peer_side", lambda name, run: fakes.side(name, megabytes=400))
    told = bench(folder, *arguments(folder, "--peer", "transformers")).stdout
    assert "mJ/token: an estimate with its bounds, not a measurement" in told
    assert "1 threads: 192 + 64 tokens, a context of 256" in told
    rows = [line.split() for line in told.splitlines()]
    assert [row[0] for row in rows[2:5]] == ["edgedec", "edgedec+auto", "transformers"]
    assert float(rows[4][3]) > 3.0


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (["--peer", "crystal-ball"], 2, ["no such peer"]),
        (["--peer", "transformers", "--memory", "1MB"], 10, ["does not fit 1.0 MB"]),
    ],
)
def test_errors_are_one_line(folder: Path, args: list[str], status: int, words: list[str]) -> None:
    assert_one_line(bench(folder, *arguments(folder, *args)), status, *words)
