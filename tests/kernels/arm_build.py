"""The kernel library for 64-bit Arm and the driver that calls it, cross-compiled once for each source.

`python tests/kernels/arm_build.py` does it ahead of the tests; otherwise the first of them that asks does.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from functools import cache
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMPILER = "aarch64-linux-gnu-g++"
EMULATORS = ("qemu-aarch64-static", "qemu-aarch64")
BUILD = ROOT / "build" / "aarch64"
LIBRARY, DRIVER = BUILD / "kernels" / "libedgedec_kernels.so", BUILD / "arm_driver"
SOURCE = ROOT / "tests" / "kernels" / "arm_driver.cc"
CONFIGURE = ("-DCMAKE_BUILD_TYPE=Release", "-DEDGEDEC_LEVEL=-O1")
"""Every level gives the same bits; this one compiles in a third of the time."""


def emulator() -> str | None:
    return next((path for name in EMULATORS if (path := shutil.which(name))), None)


def missing() -> str | None:
    """Name the tools that are needed and not installed, or return None."""
    tools = [name for name in (COMPILER, "cmake") if not shutil.which(name)]
    tools += [] if emulator() else [" or ".join(EMULATORS)]
    packages = "Debian: g++-aarch64-linux-gnu cmake qemu-user-static"
    return f"needs {', '.join(tools)} ({packages})" if tools else None


def run(*command: str | Path) -> str:
    """The output of a command that has to succeed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def state() -> str:
    """A hash of all that the build is made of."""
    kinds = {".cc", ".h", ".inc", ".cmake", ".txt"}
    files = [ROOT / "CMakeLists.txt", SOURCE]
    files += (path for path in sorted((ROOT / "kernels").rglob("*")) if path.suffix in kinds)
    digest = sha256(" ".join(CONFIGURE).encode())
    for path in files:
        digest.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


@cache
def build() -> tuple[Path, Path]:
    """Cross-compile the library, as kernels/aarch64.cmake says, and the driver; their paths."""
    toolchain, made = ROOT / "kernels" / "aarch64.cmake", BUILD / "made"
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:  # several workers of pytest want it: the first one builds
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = state()
        if not made.exists() or made.read_text(encoding="utf-8") != wanted:
            run("cmake", "-S", ROOT, "-B", BUILD, *CONFIGURE, "--toolchain", toolchain)
            run("cmake", "--build", BUILD, "--parallel", str(len(os.sched_getaffinity(0))))
            run(COMPILER, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", SOURCE, "-o", DRIVER, "-ldl")
            made.write_text(wanted, encoding="utf-8")
    return LIBRARY, DRIVER


if __name__ == "__main__":
    if lacks := missing():
        print(lacks)
    else:
        build()
