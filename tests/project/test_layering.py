"""The layers hold, the top level is the one that is fixed, files stay short, and commands start light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Container, Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from statistics import median

import pytest

from tests.conftest import ROOT
from tests.project.sources import modules, nodes, sources

FOLDERS = {"edgedec", "export", "kernels", "models", "cli", "tests", "android_demo", "docs"}
FILES = {"pyproject.toml", "CMakeLists.txt", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"}
PURE = [name for name in ("core", "sampling", "control") if (ROOT / "edgedec" / name).is_dir()]
HEAVY = [
    "onnx",
    "onnxruntime",
    "gguf",
    "huggingface_hub",
    "httpx",
    "rich",
    "jinja2",
    "prompt_toolkit",
    "tokenizers",
    "numpy",
    "torch",
    "transformers",
    "llama_cpp",
]


def imported(file: Path) -> Iterator[str]:
    for node in nodes(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            yield node.module or ""


def test_layers() -> None:
    check = [sys.executable, str(ROOT / ".ci" / "lint.py"), "layers"]
    result = subprocess.run(check, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Layers KEPT" in result.stdout, result.stdout + result.stderr


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Neither inside functions nor for types alone."""
    files = {module_name(file): file for file in modules()}
    TopologicalSorter({name: _uses(file, files) - {name} for name, file in files.items()}).prepare()


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    package = parts if parts[0] == "edgedec" else ("edgedec", *parts)
    return ".".join(package[:-1] if package[-1] == "__init__" else package)


def _uses(file: Path, names: Container[str]) -> set[str]:
    """The modules that a file imports anywhere; a package only where a name of its own is imported."""
    found = set[str]()
    for node in nodes(file):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in names else str(node.module) for name in full}
    return {name for name in found if name in names}


def test_the_core_includes_itself_alone() -> None:
    """No file, no runtime, no host: so it runs everywhere.

    Its large arrays take pages of the system, and its C API exports functions.
    """
    found = {
        (file.name, header)
        for file in sorted((ROOT / "kernels" / "core").rglob("*.[hc]*"))
        for header in re.findall(r'#include "([^"]+)"', file.read_text(encoding="utf-8"))
        if not header.startswith("core/")
    }
    assert {header for _, header in found} <= {"common/capi.h", "common/os/memory.h"}
    assert {file for file, header in found if header == "common/capi.h"} <= {
        file.name for file in (ROOT / "kernels" / "core" / "api").iterdir()
    }
    assert {file for file, header in found if header == "common/os/memory.h"} <= {"page_allocator.h"}


@pytest.mark.parametrize("layer", PURE)
def test_pure_layers_import_numpy_and_the_standard_library(layer: str) -> None:
    allowed = set(sys.stdlib_module_names) | {"numpy", "edgedec"}
    found = {
        (file.name, module)
        for file in (ROOT / "edgedec" / layer).rglob("*.py")
        for module in imported(file)
        if module.split(".")[0] not in allowed
    }
    assert not found


def test_top_level() -> None:
    top = {path.relative_to(ROOT).parts[0] for path in sources()}
    assert {name for name in top if not name.startswith(".")} == FOLDERS | FILES


def test_files_are_short() -> None:
    lines = {
        path: path.read_text(encoding="utf-8").count("\n")
        for path in sources()
        if path.suffix in (".py", ".cc", ".h")
    }
    assert {str(path): n for path, n in lines.items() if n > 500} == {}
    assert median(lines.values()) < 200


def test_the_command_starts_without_heavy_imports() -> None:
    code = f"import edgedec.cli.main, sys; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


STANDARD = re.compile(r"^from dataclasses import [^\n]*\bdataclass\b|dataclasses\.dataclass\b", re.M)


def test_dataclasses_are_those_that_are_quick_to_define() -> None:
    """But for scripts that other environments run."""
    found = [
        str(path)
        for file in sources()
        if (path := file.relative_to(ROOT)).suffix == ".py" and "peers" not in path.parts
        if path.parts[0] in ("edgedec", "cli", "models", "export", "kernels")
        if STANDARD.search(file.read_text(encoding="utf-8"))
    ]
    where = "import dataclass from edgedec.core.quick_dataclass: a start defines some 150 classes"
    assert found == ["edgedec/core/quick_dataclass.py"], where


@pytest.mark.parametrize("folder", ["export", "kernels", "models", "cli"])
def test_lint_refuses_the_bare_folder_and_says_what_to_write(folder: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(f"import {folder}\n", encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--config", str(ROOT / "pyproject.toml")]
    result = subprocess.run([*command, str(file)], capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"import edgedec.{folder}." in result.stdout, result.stdout


REACHES = re.compile(r"\w\.(single|runner)\b|\w\.forward\.\w")
"""Parts of a model by which its insides can be reached."""
STUDIES = "cli/bench/"
"""Studies measure parts by themselves."""


def test_commands_read_values_of_a_model_and_never_reach_through_it() -> None:
    """``Model.stats`` and ``Model.plan`` have them."""
    found = [
        f"{place}:{number}: {line.strip()}"
        for path in sorted((ROOT / "cli").rglob("*.py"))
        if not (place := str(path.relative_to(ROOT))).startswith(STUDIES)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if REACHES.search(line)
    ]
    assert found == []
