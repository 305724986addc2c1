"""Nothing names the index's other ``edgedec``, and an install without a compiler says what to install."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.project.sources import relative, sources

NAME = "edgedec-runtime"
"""The distribution. The import and the command are ``edgedec``, which the index gave to another project."""
STRANGER = re.compile(
    r"""\b(?:(?:pip3?|uv(?:\ pip|\ tool)?|pipx)\ (?:install|download|wheel|add|run|inject)
           (?:\ +(?!edgedec)[-\w.=:/'"\[\]<>]+)*\ +["']?edgedec(?![-\w/.])
        | (?:versions?|requires|distribution|metadata|files)\(["']edgedec["']
        | pypi\.org/(?:project|simple)/edgedec\b(?!-)
        )
      | (?<![-\w])edgedec\[(?!["'])[a-z]
      | (?<![-\w/])edgedec-(?:\*|\{__version__\}|\d[\d.]*-)[^\n"']*?\.?(?:whl|tar\.gz)""",
    re.VERBOSE,
)
PACKAGES = "install GCC 11, Clang 12 or newer (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++; "


def strangers(text: str) -> list[str]:
    """Parts of a text that take the other project for this one."""
    return [found[0].strip() for found in STRANGER.finditer(text)]


def test_nothing_names_the_other_project_of_the_index() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["name"] == NAME
    others = [file for file in sources() if file != Path(__file__)]
    texts = {relative(file): file.read_bytes().decode("utf-8", "ignore") for file in others}
    assert {name: found for name, text in texts.items() if (found := strangers(text))} == {}


def test_nothing_promises_a_release_on_the_index() -> None:
    own = [Path(__file__), ROOT / "tests" / "core" / "test_installing.py"]
    promise = re.compile(rf"(?:pip3?|uv|pipx) (?:install|tool|add|run)\b[^\n`]*\b{NAME}\b")
    texts = {file: file.read_bytes().decode("utf-8", "ignore") for file in sources() if file not in own}
    assert [relative(file) for file, text in texts.items() if promise.search(text)] == []
    assert promise.search(f"pip install '{NAME}[gpu]'")


@pytest.mark.parametrize(
    "text",
    [
        "pip install edgedec\n",
        "`pip install -U edgedec`",
        "pip install --force-reinstall 'edgedec'",
        "pip install numpy edgedec",
        "uv tool install edgedec==1.0",
        "pipx run edgedec",
        "pip download edgedec",
        "'edgedec[gpu]'",
        'version("edgedec")',
        "metadata.requires('edgedec')",
        'versions("edgedec", "numpy")',
        "https://pypi.org/project/edgedec/",
        "edgedec-0.1.0-py3-none-any.whl",
        'glob("edgedec-*.tar.gz")',
        'f"edgedec-{__version__}.tar.gz"',
    ],
)
def test_each_form_of_the_other_name_would_be_found(text: str) -> None:
    assert len(strangers(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        f"pip install {NAME}",
        f"pip install -U '{NAME}[gpu]'",
        "pip install . && .venv/bin/edgedec chat smollm2-135m",
        "pip install -e . # then edgedec chat",
        "https://pypi.org/project/edgedec-runtime/",
        "sides[edgedec] and edgedec-64-x",
    ],
)
def test_the_command_and_the_package_are_not(text: str) -> None:
    assert strangers(text) == []


def refusal(tmp_path: Path, **environment: str) -> str:
    """The error of CMake as it looks for a compiler of the kernels."""
    tools = {name: shutil.which(name) for name in ("cmake", "ninja")}
    for name, found in tools.items():
        if found is None:
            pytest.skip(f"{name} is not installed")
        (tmp_path / name).symlink_to(Path(found).resolve())
    done = subprocess.run(
        [tmp_path / "cmake", "-G", "Ninja", "-S", ROOT, "-B", tmp_path / "build"],
        env={"PATH": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("CMake Error") == 1
    return done.stderr


def test_without_a_compiler_one_line_says_what_to_install(tmp_path: Path) -> None:
    assert f"EdgeDec compiles its kernels and found no working C++ compiler: {PACKAGES}" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("line", "lacks"),
    [
        ('exec "$GXX" -U__GNUC__ -D__GNUC__=4 "$@"', r"C\+\+17"),
        ('case "$*" in *-mavxvnni*|*i8mm*) exit 1;; esac; exec "$GXX" "$@"', r"-ma\S+"),
    ],
)
def test_a_compiler_that_is_too_old_is_named_with_what_to_install(
    tmp_path: Path, line: str, lacks: str
) -> None:
    if (gxx := shutil.which("g++")) is None:
        pytest.skip("g++ is not installed")
    old = tmp_path / "old-compiler"
    old.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    old.chmod(0o755)
    said = refusal(tmp_path, CXX=str(old), GXX=gxx, PATH=os.environ["PATH"])
    assert re.search(f"old-compiler does not know {lacks}: {re.escape(PACKAGES)}", said), said
