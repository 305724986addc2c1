"""How much a clone compiles, and what that costs: ``pip install .`` is what a new user waits for."""

from __future__ import annotations

import json
import re
import resource
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from edgedec.kernels import library
from tests.conftest import ROOT
from tests.kernels.levels import COMPILER, build, configure, needs_cmake, run

MOST_FILES = 37
"""It was 214."""
MOST_TIMES = 160.0
"""Times the reference's CPU-seconds; the build takes 117 times as many, and took 416."""
REFERENCE = """
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>
std::map<std::string, std::vector<std::function<double(double)>>> kept;
double apply(std::string name, double x) {
  std::sort(name.begin(), name.end());
  for (const auto& one : kept[name]) x = one(x);
  kept[name].push_back([x](double y) { return x + y; });
  return x;
}
"""
"""What each processor and compiler is measured by."""


def cpu_s() -> float:
    """CPU-seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The commands that compile the library for ``pip install .``, by the object that each makes."""
    folder = tmp_path_factory.mktemp("clone")
    configure(folder, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    listed = json.loads((folder / "compile_commands.json").read_text("utf-8"))
    return {re.findall(r"-o (\S+)", one["command"])[0]: one["command"] for one in listed}


@needs_cmake
def test_a_clone_compiles_few_files_together(commands: dict[str, str]) -> None:
    assert len(commands) <= MOST_FILES
    engine = [name for name in commands if "edgedec_engine.dir" in name]
    assert all("Unity/unity_engine_" in name for name in engine)
    assert not [name for name in engine if re.search("_(probes|web)_", name)]


@needs_cmake
@pytest.mark.slow
def test_each_file_of_the_core_compiles_by_itself() -> None:
    """Clones compile folders together, which hides an include that is missing; browsers' engine does not."""
    kernels = ROOT / "kernels"

    def fails(file: Path) -> bool:
        return subprocess.call([COMPILER, "-std=c++17", "-fsyntax-only", f"-I{kernels}", str(file)]) != 0

    files = [file for file in (kernels / "core").rglob("*.cc") if "api" not in file.parts]
    with ThreadPoolExecutor(2) as pool:
        assert [file for file, failed in zip(files, pool.map(fails, files), strict=True) if failed] == []


@needs_cmake
def test_a_clone_compiles_the_row_of_this_processor_and_the_scalar_one(commands: dict[str, str]) -> None:
    rows = {found[1] for name in commands if (found := re.search(r"edgedec_linear_(\w+)\.dir", name))}
    assert rows == {row for row in (library.isa(),) if row != "scalar"}
    floats = [name for name in commands if "edgedec_floats_" in name]
    assert len(floats) == len(rows)
    assert all("-DEDGEDEC_STREAMS=" in commands[name] for name in commands if "edgedec_linear_" in name)


@needs_cmake
@pytest.mark.parametrize(("part", "level"), [("scalar", "-O1"), ("engine", "-O2"), ("base", "-O3")])
def test_each_part_has_its_level(commands: dict[str, str], part: str, level: str) -> None:
    found = [command for name, command in commands.items() if f"edgedec_{part}.dir" in name]
    assert found
    assert {re.findall(r" (-O\w+)", command)[-1] for command in found} == {level}


@pytest.mark.slow
@needs_cmake
def test_a_clone_compiles_within_its_budget(tmp_path: Path) -> None:
    """Processors differ, so the budget is in times of what a small file takes on this one."""
    (source := tmp_path / "reference.cc").write_text(REFERENCE)
    start = cpu_s()
    for _ in range(5):
        run(COMPILER, "-std=c++17", "-O2", "-c", source, "-o", tmp_path / "reference.o")
    reference, start = (cpu_s() - start) / 5, cpu_s()
    build(tmp_path / "clone")
    taken = cpu_s() - start
    assert taken <= MOST_TIMES * reference, (
        f"{taken:.0f} CPU-seconds, {taken / reference:.0f} of the reference"
    )
