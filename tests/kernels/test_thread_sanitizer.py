"""Engines used from several threads by a program in C++, and tests of ops and of engines, report no race."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgedec.native.library import runtime_path
from edgedec.native.ready import make_ready
from tests.conftest import ROOT
from tests.fixtures.tiny_models import tiny_bundle
from tests.kernels.sanitizers import RACES, STATUS, build, racing_environment

pytestmark = pytest.mark.slow

HOST = ROOT / "tests" / "kernels" / "threads_host.cc"
PARTS = (
    "tests/kernels/test_threads.py",
    "tests/kernels/test_sequences.py",
    "tests/kernels/test_recurrent_ops.py",
    "tests/kernels/test_region.py",
    "tests/native/test_api.py",
    "tests/native/test_api_drafters.py",
    "tests/native/test_experts_passes.py",
    "tests/backends/test_contract.py",
    "tests/backends/test_lent_slots.py",
    "tests/embed/test_modern.py",
    "tests/session/test_batch_drafts.py",
)


@pytest.fixture(scope="module")
def threaded() -> Path:
    """The library with ThreadSanitizer. Modelled rows are left out: their tests have one thread."""
    return build("threaded", "thread", "-DEDGEDEC_EMULATED=OFF")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that calls the library from several threads, instrumented itself."""
    made = tmp_path_factory.mktemp("host") / "host"
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    flags = ("-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=thread")
    command = [str(compiler), *flags, "-I", str(ROOT / "kernels"), str(HOST), "-o", str(made), "-ldl"]
    subprocess.run(command, check=True)
    return made


def run(
    host: Path, library: Path, folder: Path, architecture: str, *more: str
) -> subprocess.CompletedProcess[str]:
    bundle = tiny_bundle(folder, architecture)
    make_ready(bundle)
    (folder / "out").mkdir()
    return subprocess.run(
        [str(host), str(library), runtime_path(), str(bundle), str(folder / "out"), *more],
        env={**os.environ, "TSAN_OPTIONS": RACES},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_several_threads_make_no_race(host: Path, threaded: Path, tmp_path: Path, architecture: str) -> None:
    done = run(host, threaded, tmp_path, architecture)
    said = done.stdout + done.stderr[-6000:]
    assert done.returncode == 0, said
    assert "ThreadSanitizer" not in said, said
    assert re.search(r"^2 engines, [1-9]\d+ tokens$", done.stdout, re.MULTILINE)
    assert re.search(
        r"^\d+ replies, [1-9]\d* stopped, calls refused and answered$", done.stdout, re.MULTILINE
    )


def test_a_race_would_be_seen(host: Path, threaded: Path, tmp_path: Path) -> None:
    done = run(host, threaded, tmp_path, "llama", "race")
    assert done.returncode == STATUS, done.stdout + done.stderr
    assert "data race" in done.stderr


@pytest.mark.parametrize("part", PARTS)
def test_no_report(threaded: Path, part: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-s", "-p", "no:cacheprovider", part],
        cwd=ROOT,
        env=racing_environment(threaded),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    said = done.stdout[-6000:] + done.stderr[-6000:]
    assert done.returncode == 0, said
    assert "ThreadSanitizer" not in said, said
    assert " passed" in done.stdout
