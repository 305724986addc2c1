"""Parts that tests of the engine for Android share: a phone's folder, and programs that call edgedec.h."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import onnxruntime

from edgedec.models import Store
from tests.conftest import ROOT
from tests.kernels.arm import COMPILER, run

HOST = ROOT / "tests" / "android" / "engine_host.cc"


def phone_folder(name: str, folder: Path) -> Path:
    """Export a model of the store (EDGEDEC_HOME) for Android; pulls it when it is missing."""
    Store().ensure(name)
    run(
        sys.executable,
        "-m",
        "edgedec",
        "export",
        name,
        "--for",
        "android",
        "--with-draft",
        "off",
        "-o",
        folder,
    )
    return folder


def runtime() -> Path:
    """ONNX Runtime's library in its wheel."""
    (path,) = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    return path


def host(folder: Path, *, arm: bool) -> Path:
    """A program that opens a library of the engine and prints the ids of a greedy and of a drawn reply."""
    made = folder / f"host_{'arm' if arm else 'here'}"
    flags = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "kernels")
    run(COMPILER if arm else str(shutil.which("g++") or "g++"), *flags, HOST, "-o", made, "-ldl")
    return made
