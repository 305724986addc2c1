"""``edgedec bench report`` from the command line, on a model of random weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from edgedec.backends.gpu.adapter import CHOICE
from edgedec.bench.report import contents as report_module
from edgedec.bench.report.contents import PARTS
from edgedec.bench.report.parts import machine, passes
from edgedec.cli.services import Services
from edgedec.core.errors import StorageError, UsageError
from edgedec.models import Store
from tests.cli.support import assert_one_line, run
from tests.gpu.adapters import adapter

EXAMPLE = Path(__file__).with_name("example.json")
IN_PROCESS = {name: PARTS[name] for name in ("machine", "passes", "memory")}
"""Parts that start no processes."""


def measure(folder: Path, out: Path, *args: str) -> Result:
    services = Services(store=lambda: Store(folder / "home"), bandwidth=lambda size, threads: 10.0)
    given = ("-m", str(folder / "bundle"), "--threads", "1", "--quick", "--out", str(out))
    return run(services, "bench", "report", *given, *args)


def test_one_command_writes_one_report(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_module, "PARTS", IN_PROCESS)
    result = measure(folder, tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert {*facts["parts"]} == {*IN_PROCESS}
    assert facts["conditions"]["effort"] == "quick"
    assert [one["tokens"] for one in facts["parts"]["passes"]["result"]["passes"]] == [1, 2, 4, 8, 16, 32]
    least = facts["parts"]["memory"]["result"]["milestones"][0]["bytes"]
    assert 0 < least < facts["parts"]["memory"]["result"]["planned_bytes"]
    assert json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8")) == facts
    assert "<svg" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    shown = measure(folder, tmp_path / "out")
    assert "pass over 1 " in shown.stdout
    assert shown.stdout.rstrip().endswith("report.html")


def test_a_report_of_a_gpu_says_so(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = adapter()
    monkeypatch.setenv(CHOICE, one.name)
    monkeypatch.setattr(report_module, "PARTS", {name: PARTS[name] for name in ("machine", "passes")})
    result = measure(folder, tmp_path / "out", "--device", "gpu", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["conditions"]["isa"].startswith(one.title)
    assert facts["parts"]["passes"]["result"]["passes"][0]["ms"] > 0


def test_the_same_command_goes_on_after_an_interruption(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def interrupted(*_: object) -> dict[str, object]:
        calls.append("passes")
        raise KeyboardInterrupt

    monkeypatch.setattr(report_module, "PARTS", {name: PARTS[name] for name in ("machine", "passes")})
    monkeypatch.setattr(passes, "measure", interrupted)
    result = measure(folder, tmp_path / "out")
    assert result.exit_code == 130
    assert result.stderr == f"1 of 2 parts are kept in {tmp_path / 'out'}; the same command goes on\n\n"
    example = json.loads(EXAMPLE.read_text(encoding="utf-8"))["parts"]["passes"]["result"]
    monkeypatch.setattr(passes, "measure", lambda *_: example)
    monkeypatch.setattr(machine, "measure", interrupted)
    assert measure(folder, tmp_path / "out").exit_code == 0
    assert calls == ["passes"]


def test_a_full_disk_ends_it_at_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that could not be kept would be measured for minutes, and lost."""

    def full(*_: object) -> None:
        raise StorageError("no space left on the disk while writing passes.json")

    calls: list[object] = []
    monkeypatch.setattr(report_module, "PARTS", {name: PARTS[name] for name in ("machine", "passes")})
    monkeypatch.setattr(machine, "measure", lambda *_: {})
    monkeypatch.setattr(passes, "measure", lambda *_: calls.append(1) or {})
    monkeypatch.setattr("edgedec.bench.report.folder.atomic_path", full)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "parts").mkdir()
    result = measure(folder, tmp_path / "out")
    assert_one_line(result, StorageError.exit_code, "no space left on the disk")
    assert calls == []


def test_a_part_that_cannot_be_measured_is_said_and_tried_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> dict[str, object]:
        raise UsageError("2 threads are not possible")

    monkeypatch.setattr(report_module, "PARTS", {name: PARTS[name] for name in ("machine", "passes")})
    measured = passes.measure
    monkeypatch.setattr(passes, "measure", fails)
    result = measure(folder, tmp_path / "out")
    assert result.exit_code == 0
    assert "Not measured: 2 threads are not possible." in result.stdout
    assert result.stderr == "not measured: Passes; the report says why, and the same command tries again\n"
    monkeypatch.setattr(passes, "measure", measured)
    result = measure(folder, tmp_path / "out")
    assert "pass over 1 " in result.stdout
    assert result.stderr == ""


def test_a_comparison_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "both").write_text("a file")
    result = run(None, "bench", "report", str(EXAMPLE), str(EXAMPLE), "--out", str(tmp_path / "both"))
    assert_one_line(result, StorageError.exit_code, "a file is in the way")


def test_two_reports_are_compared(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_bytes(EXAMPLE.read_bytes())
    folders = str(tmp_path / "a"), str(tmp_path / "b")
    result = run(None, "bench", "report", *folders, "--out", str(tmp_path / "both"))
    assert result.exit_code == 0, result.output
    assert "Both were measured under the same conditions" in result.stdout
    assert (tmp_path / "both" / "report.md").read_text(encoding="utf-8") == result.stdout
    assert json.loads(run(None, "bench", "report", *folders, "--json").stdout)["differing"] == {}
    assert_one_line(run(None, "bench", "report", folders[0], str(tmp_path)), 3, "there is no report")


def test_one_report_alone_is_not_compared_and_the_old_name_is_known() -> None:
    assert_one_line(run(None, "bench", "report", str(EXAMPLE)), 2, "two reports are compared, not 1")
    assert "bench" in run(None, "measure").stderr


@pytest.mark.slow
def test_a_whole_report(folder: Path, tmp_path: Path) -> None:
    result = measure(folder, tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    parts = json.loads(result.stdout)["parts"]
    assert {*parts} == {*PARTS}
    assert all("result" in part for part in parts.values())
    assert parts["drafts"]["result"]["differing_replies"]["edgedec+auto"] == {"replies": 0, "of": 6}
    assert len(parts["budgets"]["result"]["rows"]) == 2
    assert parts["quality"]["result"]["questions"] == 6
