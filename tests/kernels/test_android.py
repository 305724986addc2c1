"""The library for Android: what it asks of the system, and that this very file runs over another C library.

Needs the cross compiler, and qemu for the parts that run. Android's own loader and C library are not here.
"""

from __future__ import annotations

import ctypes
import re
import shutil
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.kernels.arm import ArmLibrary, needs_arm, sysroot
from tests.kernels.arm_build import BUILD, run

pytestmark = [needs_arm, pytest.mark.slow]

FOLDER = ROOT / "build" / "android"
READELF, NM = "aarch64-linux-gnu-readelf", "aarch64-linux-gnu-nm"
PAGE = 16 * 1024
CLOCK = """
#include <time.h>
#include <sys/syscall.h>
long pass_ns;  // not 0: whatever takes the calling thread longer than this takes one step, all else nothing
int* __errno_location(); int* __errno() { return __errno_location(); }
static long nanoseconds(int which) {
  struct timespec now;
  syscall(SYS_clock_gettime, which, &now);
  return now.tv_sec * 1000000000l + now.tv_nsec;
}
int clock_gettime(int which, struct timespec* now) {
  static long steps, before;
  if (!pass_ns || which != CLOCK_MONOTONIC) return syscall(SYS_clock_gettime, which, now);
  const long busy = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
  steps += busy - before > pass_ns;
  before = busy;
  now->tv_sec = steps / 100;
  now->tv_nsec = steps % 100 * 10000000;
  return 0;
}
"""
"""A clock by which passes of any length cost alike, in an emulator on a busy machine too."""
STAND_INS = {
    "libc.so": CLOCK,
    "libm.so": "",
    "libdl.so": "",
    "liblog.so": "#include <stdio.h>\nint __android_log_write(int, const char* tag, const char* text)"
    '{ return fprintf(stderr, "%s: %s\\n", tag, text); }',
}


@cache
def android_library() -> Path:
    """Build libedgedec.so as an app has it; its path."""
    toolchain = ROOT / "kernels" / "android" / "toolchain.cmake"
    run("cmake", "-S", ROOT, "-B", FOLDER, "-DCMAKE_BUILD_TYPE=Release", "--toolchain", toolchain)
    run("cmake", "--build", FOLDER, "--parallel", "2")
    return FOLDER / "kernels" / "libedgedec.so"


def allowed() -> set[str]:
    lines = (ROOT / "kernels" / "android" / "allowed.txt").read_text().splitlines()
    return {name for line in lines if line.startswith("lib") for name in line.split(":")[1].split()}


def names(which: str) -> set[str]:
    listing = run(NM, "-D", which, android_library())
    return {line.split()[-1] for line in listing.splitlines()}


@cache
def root() -> Path:
    """A folder for qemu in which libraries named as Android's lead to those of glibc."""
    folder = BUILD / "android_root"
    shutil.rmtree(folder, ignore_errors=True)
    libraries = folder / "lib"
    libraries.mkdir(parents=True)
    for file in (sysroot() / "lib").iterdir():
        if file.name not in STAND_INS:
            (libraries / file.name).symlink_to(file)
    for name, source in STAND_INS.items():
        c = folder / f"{name}.c"
        c.write_text(source)
        flags = ("-w", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-Wl,--no-as-needed")
        run("aarch64-linux-gnu-gcc", *flags, c, "-lm", "-o", libraries / name)
    return folder


def test_the_library_asks_for_no_other_names_than_android_exports() -> None:
    assert names("--undefined-only") - allowed() == set()


def test_the_library_exports_the_engine_and_the_ops_and_nothing_else() -> None:
    found = names("--defined-only")
    assert {"RegisterCustomOps", "edgedec_open", "edgedec_reply", "edgedec_version"} <= found
    assert [
        name for name in found if not re.match(r"edgedec_|Java_ai_edgedec_engine_|RegisterCustomOps$", name)
    ] == []
    assert [name for name in found if name.startswith("edgedec_probe_")] == []


def test_the_library_fits_androids_loader() -> None:
    dynamic, segments = (run(READELF, option, android_library()) for option in ("-dW", "-lW"))
    assert re.findall(r"SONAME.*\[(.*)\]", dynamic) == ["libedgedec.so"]
    assert set(re.findall(r"NEEDED.*\[(.*)\]", dynamic)) <= set(STAND_INS)
    assert re.findall(r"TEXTREL|RUNPATH|RPATH|VERNEED", dynamic) == []
    loads = re.findall(r"LOAD .* (0x[0-9a-f]+)$", segments, re.MULTILINE)
    assert {int(one, 16) for one in loads} == {PAGE}
    assert "TLS" not in segments


def test_no_path_of_this_machine_is_in_the_library() -> None:
    assert str(ROOT).encode() not in android_library().read_bytes()


def test_this_very_file_runs_over_another_c_library() -> None:
    with ArmLibrary("max", path=android_library(), root=root()) as library:
        for function in (library.edgedec_selected_isa, library.edgedec_version):
            function.restype = ctypes.c_char_p
        assert library.edgedec_selected_isa() == b"neon_i8mm"
        assert re.fullmatch(rb"\d+\.\d+\.\d+", library.edgedec_version())
