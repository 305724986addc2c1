"""``edgedec.wasm`` links: this machine's compiler takes its sources, and each function called is in one.

Its rows of ops and its own system need WebAssembly: calls of rows are left out, imports of JavaScript known.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

import pytest

from tests.web.test_sources import KERNELS, compiled

COMPILER = shutil.which("g++") or shutil.which("clang++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
RENAMED = re.compile(r' __asm__\("[^"]*\|[^"]*"\)')
"""Names that only WebAssembly's tools take."""
IMPORT = re.compile(r'import_name\("(\w+)"\)')


def run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    return done.stdout


def unit(folder: str, names: list[str], place: Path) -> Path:
    """Compile the sources of a folder as one; the object."""
    texts = [(KERNELS / name).read_text(encoding="utf-8") for name in names]
    source = place / f"{folder.replace('/', '_')}.cc"
    source.write_text("".join(RENAMED.sub("", text) for text in texts), encoding="utf-8")
    made = source.with_suffix(".o")
    run(str(COMPILER), "-std=c++17", "-O0", "-fPIC", "-w", f"-I{KERNELS}", "-c", source, "-o", made)
    return made


def missing(names: set[str], place: Path) -> set[str]:
    """Symbols that none of the sources defines, nor a library of the compiler."""
    own = sorted(name for name in names if not name.endswith("/wasm.cc"))
    folders = [(folder, [*found]) for folder, found in groupby(own, lambda name: str(Path(name).parent))]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        objects = [*pool.map(lambda one: unit(*one, place), folders)]
    made = place / "linked.so"
    run(str(COMPILER), "-shared", "-o", made, *objects)
    lines = (line.split() for line in run("nm", "-D", "-C", "--undefined-only", made).splitlines())
    return {" ".join(line[1:]) for line in lines if line[0] == "U" and "@" not in line[-1]}


def test_each_function_is_in_one_of_the_sources(tmp_path: Path) -> None:
    names = compiled()
    imports = {one for name in names for one in IMPORT.findall((KERNELS / name).read_text(encoding="utf-8"))}
    found = missing(names, tmp_path)
    assert found - imports == set()
    assert "edgedec_now" in found
