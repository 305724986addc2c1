"""The engine's library for Android, with its methods for Java."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from building.tools import BuildError, require, run, say

NAME = "libedgedec.so"


def java_headers() -> Path:
    """The folder of jni.h of the JDK that has javac."""
    javac = shutil.which("javac")
    home = Path(javac or "").resolve().parent.parent
    if not (home / "include" / "jni.h").is_file():
        raise BuildError(f"{home} has no include/jni.h (Debian, Ubuntu: apt install default-jdk-headless)")
    return home / "include"


def build(root: Path, folder: Path) -> Path:
    """Compile the engine; return the library."""
    require("aarch64-linux-gnu-g++", "cmake", "javac", "make")
    say("compiling the engine for 64-bit Arm")
    toolchain = root / "kernels" / "android" / "toolchain.cmake"
    options = ["-DCMAKE_BUILD_TYPE=Release", f"-DEDGEDEC_JNI={java_headers()}"]
    # One generator: each hands the objects to the linker in an order of its own, and so has bytes of its own.
    run(["cmake", "-G", "Unix Makefiles", "-S", root, "-B", folder, "--toolchain", toolchain, *options])
    run(["cmake", "--build", folder, "--parallel", str(len(os.sched_getaffinity(0)))])
    return folder / "kernels" / NAME
