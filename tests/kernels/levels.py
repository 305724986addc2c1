"""Kernels compiled at other levels of optimisation than an install has."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

COMPILER = os.environ.get("CXX", "c++")
FLAGS = ("-std=c++17", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno", "-fno-exceptions")

needs_compiler = pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"needs {COMPILER}")
needs_cmake = pytest.mark.skipif(
    not all(map(shutil.which, (COMPILER, "cmake", "ninja"))), reason=f"needs {COMPILER}, cmake, ninja"
)


def run(*command: str | Path, **environment: str) -> str:
    """The output of a command that has to succeed."""
    parts = [str(part) for part in command]
    done = subprocess.run(parts, capture_output=True, text=True, check=False, env=os.environ | environment)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def scalar_rows(folder: Path, level: str, *ops: str) -> Path:
    """A library of the scalar rows of some ops alone, at a level; its path."""
    kernels, made = ROOT / "kernels", folder / f"lib{level}.so"
    files = [kernels / op / f"{part}.cc" for op in ops for part in ("scalar", "select", "capi")]
    run(COMPILER, *FLAGS, level, "-I", kernels, kernels / "common" / "isa.cc", *files, "-o", made)
    return made


def configure(folder: Path, *options: str) -> None:
    """Configure a build of the kernels with Ninja, as ``pip install .`` does, without a cache of objects."""
    native = (
        "-DEDGEDEC_ROWS=native",
        "-DEDGEDEC_PROBES=OFF",
        "-DEDGEDEC_EMULATED=OFF",
        "-DEDGEDEC_CCACHE=OFF",
    )
    kind = ("-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release")
    run("cmake", "-S", ROOT, "-B", folder, *kind, *native, *options, CMAKE_CXX_COMPILER_LAUNCHER="")


def build(folder: Path, *options: str) -> Path:
    """Compile the library as ``pip install .`` does, but for the options; its path."""
    configure(folder, *options)
    run("cmake", "--build", folder, CCACHE_DISABLE="1")
    return folder / "kernels" / "libedgedec_kernels.so"
