"""The workflows for GitHub's runners: they call what exists, with no more rights than they need."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.conftest import ROOT
from tests.project.test_packaging import wheels

FOLDER = ROOT / ".github" / "workflows"
RUNNERS = {
    "windows-2025": ("Windows", "x86_64"),
    "windows-11-arm": ("Windows", "aarch64"),
    "macos-15": ("Darwin", "aarch64"),
    "macos-15-intel": ("Darwin", "x86_64"),
}
FOLDERS = r"(?:\.ci|android_demo|kernels|edgedec)"
FILE = re.compile(rf"(?<![\w/.-])(?:sources/)?({FOLDERS}/[\w./]+\.\w+|CHANGELOG\.md)")


def workflow(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yml").read_text(encoding="utf-8"))
    return found


def steps(jobs: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in jobs.values() for step in job.get("steps", ())]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yml")), ids=lambda path: path.stem)
def test_a_workflow_calls_files_that_exist_and_may_only_read(path: Path) -> None:
    found = workflow(path.stem)
    assert found["permissions"] == {"contents": "read"}
    commands = [step["run"] for step in steps(found["jobs"]) if "run" in step]
    named = {name for command in commands for name in FILE.findall(command)}
    assert [name for name in named if not (ROOT / name).is_file()] == []
    called = [job["uses"] for job in found["jobs"].values() if "uses" in job]
    assert all((ROOT / name).is_file() for name in called)


def test_every_system_but_linux_has_a_runner() -> None:
    jobs = workflow("platforms")["jobs"]
    tried = jobs["tests"]["strategy"]["matrix"]["include"]
    assert {one["runner"]: (one["system"], one["arch"]) for one in tried} == RUNNERS
    assert set(jobs["chat"]["strategy"]["matrix"]["runner"]) == RUNNERS.keys()
    built = {(one.system, one.arch) for one in wheels.PLATFORMS.values()}
    assert built == {*RUNNERS.values(), ("Linux", "x86_64"), ("Linux", "aarch64")}


def test_only_the_jobs_that_publish_may_write() -> None:
    jobs = workflow("release")["jobs"]
    rights = {name: job["permissions"] for name, job in jobs.items() if "permissions" in job}
    assert rights == {
        "attest": {"contents": "write", "id-token": "write", "attestations": "write"},
        "publish": {"id-token": "write"},
    }
    assert jobs["publish"]["environment"] == "release"
    assert jobs["publish"]["needs"] == "attest"
