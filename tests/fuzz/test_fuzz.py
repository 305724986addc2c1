"""40 hostile inputs of each target with every change, 100,000 in the slow suite; and the fuzzer finds."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from edgedec.core.errors import BadFileError
from tests.fixtures.nightly import every
from tests.fuzz import campaign, worker
from tests.fuzz.__main__ import table
from tests.fuzz.campaign import Plan, run
from tests.fuzz.mutate_gguf import fields
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS, damaged

ALL = tuple(TARGETS)


def test_damaged_files_end_in_one_line() -> None:
    summary = run(Plan(ALL, inputs=40 * len(ALL), seed=23, limit_s=60))
    assert summary.findings == [], table(summary)
    for name, tally in summary.tallies.items():
        assert tally.inputs == 40, name
        assert 0 < tally.outcomes["accepted"] < tally.inputs, name


@pytest.mark.slow
def test_a_hundred_thousand_damaged_files() -> None:
    summary = run(Plan(ALL, inputs=100_000, seed=21, limit_s=60))
    print(table(summary))
    assert summary.findings == [], table(summary)
    assert sum(tally.inputs for tally in summary.tallies.values()) >= 100_000


def test_a_worker_that_does_not_start_ends_the_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "WORKER", ("-c", "raise SystemExit('a seed is refused')"))
    with pytest.raises(campaign.NotStartedError, match="a seed is refused"):
        run(Plan(ALL[:1], inputs=40))


@pytest.mark.parametrize("name", every(4, ALL))
def test_an_input_is_a_function_of_seed_and_index(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    seeds = target.seeds(tmp_path)
    made = [damaged(target, seeds, 3, index)[0] for index in range(60)]
    again = TARGETS[name].seeds(tmp_path / "elsewhere") if not tmp_path.joinpath("elsewhere").mkdir() else []
    assert made == [damaged(target, again, 3, index)[0] for index in range(60)]
    assert made != [damaged(target, seeds, 4, index)[0] for index in range(60)]
    undamaged = [files for files, _ in seeds]
    assert sum(files not in undamaged for files in made) > 50
    assert damaged(target, seeds, 3, 0, keep=())[0] in undamaged


def _read_badly(folder: Path) -> None:
    number = folder.joinpath("n").read_bytes()[0]
    if number == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == 2:
        raise BadFileError("")
    if number == 3:
        raise KeyError("not ours")
    if number == 4:
        raise BadFileError("two\nlines of x")
    if number == 5:
        raise BadFileError("something is wrong")


@pytest.mark.parametrize(
    ("number", "outcome", "finding"),
    [(0, "accepted", None), (2, "BadFileError", "not a readable line"), (3, "finding", "KeyError"),
     (4, "BadFileError", None), (5, "BadFileError", "names no part")],
)  # fmt: skip
def test_what_is_a_finding(tmp_path: Path, number: int, outcome: str, finding: str | None) -> None:
    tmp_path.joinpath("n").write_bytes(bytes([number]))
    target = Target("n", lambda folder: [], lambda files, rng: None, _read_badly, ("x",))
    found = worker._outcome(target, tmp_path)
    assert (found["outcome"], found.get("finding")) == (outcome, finding)


BROKEN = """
import os, signal, sys, time
from dataclasses import replace
from tests.fuzz import campaign, worker
def read(folder):
    number = folder.joinpath("talk.json").read_bytes()[0]
    if ready and number == {first}:
        {trouble}
ready = False
targets = worker.TARGETS
worker.TARGETS = {{"session": replace(targets["session"], read=read)}}
warm_up = worker._warm_up
def then_trouble(*given):
    global ready
    warm_up(*given)
    ready = True
worker._warm_up = then_trouble
worker.main()
"""


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        pytest.param("time.sleep(60)", "hang", marks=pytest.mark.slow),
        pytest.param("bytearray(4 << 30)", "MemoryError", marks=pytest.mark.slow),
        ("raise ValueError('x')", "ValueError"),
        pytest.param("os._exit(3)", "status 3: ", marks=pytest.mark.slow),
    ],
)
def test_crashes_hangs_and_hunger_are_found(
    trouble: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker's reader fails on files that still begin as they should, which about every other does."""
    code = BROKEN.format(first=ord("{"), trouble=trouble)
    monkeypatch.setattr("tests.fuzz.campaign.WORKER", ("-c", code))
    plan = Plan(("session",), inputs=1, seed=1, workers=1, limit_s=1.0, save=tmp_path)
    summary = run(plan)
    assert summary.findings
    assert {finding.kind for finding in summary.findings} == {kind}
    assert summary.findings[0].steps == ()  # it needs no damage at all
    folder = tmp_path / f"session-1-{summary.findings[0].index}"
    assert folder.joinpath("talk.json").read_bytes()[:1] == b"{"
    assert kind in folder.joinpath("finding.json").read_text(encoding="utf-8")
    assert "FOUND session" in table(summary)


def test_the_fields_of_a_gguf_file(tmp_path: Path) -> None:
    files, _ = TARGETS["gguf"].seeds(tmp_path)[0]
    data = files["model.gguf"]
    found = fields(data)
    kinds = {field.kind for field in found}
    assert kinds == {"count", "length", "type", "dim", "offset", "scalar", "float", "text"}
    assert any(data[field.at : field.at + field.size] == b"general.architecture" for field in found)
    assert any(data[field.at : field.at + field.size] == b"blk.0.ffn_down.weight" for field in found)
