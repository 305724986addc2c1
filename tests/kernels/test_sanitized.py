"""The kernels built with AddressSanitizer and UndefinedBehaviorSanitizer: the kernel tests, without a report.

Built as anyone can: ``cmake -S . -B FOLDER -DEDGEDEC_SANITIZE=address,undefined``; ``EDGEDEC_KERNELS`` names
the library to use. Python is not instrumented, so the sanitizers' runtimes have to be loaded before it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow

PARTS = ("tests/kernels", "tests/backends/test_hostile_graph.py", "tests/backends/test_contract.py")
OVERRUN = """
import ctypes, numpy as np
from edgedec.kernels import library
x, weight = np.zeros(64, np.float32), np.zeros(16, np.float32)
pointer = lambda array: ctypes.c_void_p(array.ctypes.data)
size, epsilon = ctypes.c_size_t, ctypes.c_float(1e-6)
y = np.zeros(64, np.float32)
library.load().edgedec_rms_norm(
    b"scalar", pointer(x), pointer(weight), None, pointer(y), size(0), size(1), size(1 << 20), epsilon
)
"""


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library with sanitizers, and beside it the one with modelled rows where SIMDe is installed."""
    folder = tmp_path_factory.mktemp("sanitized")
    command = ["cmake", "-S", str(ROOT), "-B", str(folder), "-DCMAKE_BUILD_TYPE=None"]
    for step in ([*command, "-DEDGEDEC_SANITIZE=address,undefined"], ["cmake", "--build", str(folder)]):
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder / "kernels" / "libedgedec_kernels.so"


def environment(library: Path) -> dict[str, str]:
    compiler = os.environ.get("CXX", "c++")
    runtimes = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    return {
        **os.environ,
        "EDGEDEC_KERNELS": str(library),
        "LD_PRELOAD": " ".join(str(Path(runtime).resolve()) for runtime in runtimes),
        # Python keeps memory to its end, and the allocator of the runtime knows nothing of NumPy's.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=86",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=86",
        "PYTHONMALLOC": "malloc",  # so that memory of Python objects has edges that are watched too
    }


def run(library: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment(library),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("part", PARTS)
def test_no_report(sanitized: Path, part: str) -> None:
    done = run(sanitized, "-m", "pytest", "-q", "-x", "-s", "-p", "no:cacheprovider", part)
    said = done.stdout[-6000:] + done.stderr[-6000:]
    assert done.returncode == 0, said
    assert "runtime error:" not in said, said
    assert "AddressSanitizer" not in said, said
    assert " passed" in done.stdout


def test_a_report_would_be_seen(sanitized: Path) -> None:
    """A call with a size beyond its arrays."""
    done = run(sanitized, "-c", OVERRUN)
    assert done.returncode == 86, done.stdout + done.stderr
    assert "AddressSanitizer" in done.stderr
