"""Recorded runs are the same when they are run again, and a difference is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.soak.recorded_runs import compared, record


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("recorded") / "runs"
    # Without a memory budget: its plan counts what the process of all tests has taken.
    record(file, runs=3, seed=701)
    return file


def test_runs_are_the_same_again(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(file) == 0
    assert "3 runs" in capsys.readouterr().out
    replies = [reply for line in file.read_text().splitlines() for reply in json.loads(line)["replies"]]
    assert sum(len(reply.get("tokens", ())) for reply in replies) > 20


@pytest.mark.parametrize("part", ["replies", "passes"])
def test_a_difference_is_found(file: Path, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    changed = next(number for number, line in enumerate(lines) if line["passes"])
    lines[changed][part] = lines[changed][part][1:]
    other = file.with_name("changed")
    other.write_text("".join(json.dumps(line) + "\n" for line in lines))
    other.with_name("changed.models").unlink(missing_ok=True)
    other.with_name("changed.models").symlink_to(file.with_name("runs.models"))
    assert compared(other) == 1
    assert f"run {changed}: {part} differ" in capsys.readouterr().out
    assert compared(other, passes=False) == int(part == "replies")
