"""The kernels built with AddressSanitizer and UndefinedBehaviorSanitizer: tests of kernels and of
drafters, hostile calls of the ops and damaged memories of drafters, without a report.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.kernels.sanitizers import STATUS, build, environment

pytestmark = pytest.mark.slow

PARTS = (
    "tests/kernels",
    "tests/draft/test_native.py",
    "tests/draft/test_lookup.py",
    "tests/draft/test_recycling.py",
    "tests/native/test_base.py",
    "tests/native/test_bundle.py",
    "tests/native/test_costs.py",
    "tests/native/test_api.py",
    "tests/native/test_api_hostile.py",
    "tests/native/test_cases.py",
    "tests/control/test_played.py",
    "tests/control/test_control.py",
    "tests/control/test_batch_costs.py",
    "tests/decode/test_speculation.py",
    "tests/decode/test_constrained.py",
    "tests/draft/test_exit.py",
    "tests/draft/test_model.py",
    "tests/decode/test_engine.py",
    "tests/text/test_bpe_table.py",
    "tests/native/test_memory.py",
    "tests/native/test_model.py",
    "tests/native/test_model_hostile.py",
    "tests/native/test_session_file.py",
    "tests/native/test_experts_passes.py",
    "tests/native/test_cache_kinds.py",
    "tests/native/test_draft_carried.py",
    "tests/sampling/test_core.py",
    "tests/verify/test_core.py",
    "tests/native/test_web.py",
    "tests/native/test_thinking.py",
    "tests/native/test_text.py",
    "tests/native/test_text_template.py",
    "tests/native/test_text_hostile.py",
    "tests/embed/test_encoder.py",
    "tests/embed/test_modern.py",
    "tests/backends/test_hostile_graph.py",
    "tests/backends/test_hostile_calls.py",
    "tests/backends/test_contract.py",
    "tests/backends/test_experts_faults.py",
    "tests/backends/test_experts_on_disk.py",
    "tests/backends/test_attention.py",
    "tests/backends/test_rings.py",
    "tests/backends/test_ring_sequences.py",
    "tests/backends/test_lent_slots.py",
)
# Two build and run another library, for another machine; the third leaves a sanitizer no memory of its own.
LEFT_OUT = tuple(f"--ignore=tests/kernels/test_{name}.py" for name in ("arm", "arm_floats", "no_memory"))
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
def sanitized() -> Path:
    """The library with sanitizers, and beside it the one with modelled rows where SIMDe is installed."""
    return build("sanitized", "address,undefined")


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
    done = run(sanitized, "-m", "pytest", "-q", "-x", "-s", "-p", "no:cacheprovider", *LEFT_OUT, part)
    said = done.stdout[-6000:] + done.stderr[-6000:]
    assert done.returncode == 0, said
    assert "runtime error:" not in said, said
    assert "AddressSanitizer" not in said, said
    assert " passed" in done.stdout


@pytest.mark.parametrize("target", ["op", "drafts", "streamed", "native", "carried", "restored", "program"])
def test_hostile_inputs(sanitized: Path, target: str) -> None:
    fuzz = ("-m", "tests.fuzz", "--target", target, "--inputs", "2000", "--limit", "60", "--workers", "1")
    command = [sys.executable, *fuzz, "--kernels", str(sanitized)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2000 inputs" in done.stdout
    assert "0 findings" in done.stdout


def test_a_report_would_be_seen(sanitized: Path) -> None:
    """A call with a size beyond its arrays."""
    done = run(sanitized, "-c", OVERRUN)
    assert done.returncode == STATUS, done.stdout + done.stderr
    assert "AddressSanitizer" in done.stderr
