"""The native engine gives back what it held, and keeps to its budget reply after reply."""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from edgedec import native
from edgedec.sampling import DrawParams
from tests.conftest import ROOT
from tests.fixtures.tiny_models import tiny_bundle

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc's mallinfo2"),
]

ENGINES, AT_ONCE = 200, 25
LEAST_LEAK = 32
"""Bytes; a heap block that each engine would leave takes no fewer."""
DESCRIPTORS, THREADS = Path("/proc/self/fd"), Path("/proc/self/task")

_REPLIES = """
import json, sys
from pathlib import Path
from edgedec import native
from edgedec.native.library import call_text
from edgedec.system.memory import peak_rss_bytes
from tests.native.cases import cases
from tests.native.native_runs import NativeRuns, runtime
runtime()  # imports a package: before memory is measured
bundle, count = Path(sys.argv[1]), int(sys.argv[2])
every = cases(5, count, 290)
budget = native.plan(bundle, memory=1 << 40, context=256, threads=1)["planned_bytes"] + 2_000_000
runs = NativeRuns(bundle, "auto", memory=budget)
over, answered = [], 0
for at, case in enumerate(every):
    answered += runs.run(case).error is None
    if (peak := peak_rss_bytes()) > budget:
        over.append((at, peak))
memory = json.loads(call_text("stats", runs._engine))["memory"]
print(json.dumps({"over": over, "answered": answered, "budget": budget, "memory": memory}))
"""


class _Heap(ctypes.Structure):
    """glibc's ``struct mallinfo2``."""

    _fields_: ClassVar = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
            "keepcost",
        )
    ]  # fmt: skip


def heap_bytes() -> int:
    """Bytes of the heap that are in use."""
    gc.collect()
    function = ctypes.CDLL(None).mallinfo2
    function.restype = _Heap
    heap = function()
    return int(heap.uordblks + heap.hblkhd)


def use(bundle: Path, costs: Path) -> None:
    with native.open(bundle, threads=2, context=256, costs=costs) as model:
        model.complete("hello world hello", max_tokens=10, sampling=DrawParams(temperature=0.9, seed=3))
        model.save(costs.parent / "talk")
        model.restore(costs.parent / "talk")


def test_closed_engines_leave_nothing(tmp_path: Path) -> None:
    """Python's own heap grows now and then, but an engine's leak would be in the growth of every stretch."""
    bundle, costs = tiny_bundle(tmp_path), tmp_path / "costs"
    costs.mkdir()
    for _ in range(AT_ONCE):
        use(bundle, costs)
    kept = [len(list(folder.iterdir())) for folder in (DESCRIPTORS, THREADS)]
    grown = []
    for _ in range(ENGINES // AT_ONCE):
        before = heap_bytes()
        for _ in range(AT_ONCE):
            use(bundle, costs)
        grown.append((heap_bytes() - before) / AT_ONCE)
    assert min(grown) < LEAST_LEAK, grown
    assert [len(list(folder.iterdir())) for folder in (DESCRIPTORS, THREADS)] == kept


def test_a_thousand_replies_keep_to_their_budget(tmp_path: Path) -> None:
    """In a process of its own, whose peak is that of the replies."""
    bundle = tiny_bundle(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", _REPLIES, str(bundle), "1000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["over"] == [], found
    assert found["answered"] > 700, found
    parts, leased = found["memory"]["parts"], found["memory"]["most_leased"]
    assert {name: most for name, most in leased.items() if most > parts[name]} == {}
