"""The library for Windows and macOS, by Zig's compiler (``kernels/zig.cmake``), built once for each source.

Programs for Windows run in Wine, in a folder of its own in ``build``.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.conftest import ROOT
from tests.kernels.arm_build import state

_HERE = ROOT / "tests" / "windows"
HOSTS = {"driver": ROOT / "tests/kernels/arm_driver.cc"}
HOSTS |= {name: _HERE / f"{name}.cc" for name in ("engine_host", "job_host")}
NAMES = {"Windows": "edgedec_kernels.dll", "Darwin": "libedgedec_kernels.dylib"}
RUNTIME = os.environ.get("EDGEDEC_ORT_WINDOWS", "")


def missing(*, wine: bool = False, runtime: bool = False) -> str | None:
    """Name what is needed and not installed, or return None."""
    lacks = [name for name in ("cmake", "ninja") if not shutil.which(name)]
    lacks += [] if importlib.util.find_spec("ziglang") else ["ziglang (pip install ziglang==0.17.1)"]
    lacks += ["wine (Debian: wine wine64)"] if wine and not shutil.which("wine") else []
    if runtime and not Path(RUNTIME).is_file():
        lacks.append("ONNX Runtime for Windows (EDGEDEC_ORT_WINDOWS names its onnxruntime.dll)")
    return f"needs {', '.join(lacks)}" if lacks else None


def run(*command: str | Path) -> str:
    """The output of a command that has to succeed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@cache
def library(system: str, architecture: str) -> Path:
    """Compile the library; its path."""
    folder = ROOT / "build" / f"{system.lower()}-{architecture}"
    made, wanted = folder / "made", state()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # several workers of pytest want it: the first one builds
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists() or made.read_text(encoding="utf-8") != wanted:
            toolchain = ROOT / "kernels" / "zig.cmake"
            given = {"CMAKE_BUILD_TYPE": "Release", "EDGEDEC_LEVEL": "-O1", "EDGEDEC_EMULATED": "OFF"}
            given |= {
                "EDGEDEC_PYTHON": sys.executable,
                "EDGEDEC_SYSTEM": system,
                "EDGEDEC_ARCH": architecture,
            }
            defines = [f"-D{name}={value}" for name, value in given.items()]
            run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "--toolchain", toolchain, *defines)
            run("cmake", "--build", folder)
            made.write_text(wanted, encoding="utf-8")
    return folder / "kernels" / NAMES[system]


@cache
def windows_program(name: str) -> Path:
    """Compile a program of the tests for Windows, beside the library; its path."""
    beside = library("Windows", "x86_64")
    made = beside.with_name(f"{name}.exe")
    if not made.exists() or made.stat().st_mtime < HOSTS[name].stat().st_mtime:
        zig = (sys.executable, "-m", "ziglang", "c++", "-target", "x86_64-windows-gnu")
        compiler = (*zig, "-std=c++17", "-O1")
        links = () if name != "engine_host" else (beside.with_name("libedgedec_kernels.dll.a"),)
        run(*compiler, f"-I{ROOT / 'kernels'}", HOSTS[name], *links, "-o", made)
    return made


def in_wine() -> dict[str, str]:
    """Variables for a program that Wine runs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EDGEDEC_")}
    prefix = ROOT / "build" / "wine"
    prefix.mkdir(parents=True, exist_ok=True)
    return {**kept, "WINEDEBUG": "-all", "WINEPREFIX": str(prefix)}


def windows_path(path: Path) -> str:
    """The path by which Wine's programs know a file: the root is its drive Z."""
    return "Z:" + str(path.resolve()).replace("/", "\\")
