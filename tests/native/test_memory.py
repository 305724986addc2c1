"""The native engine's ledger and its words for sizes against Python's, and what it measures of a process."""

from __future__ import annotations

import mmap
from ctypes import c_char_p, c_int, c_int64, c_size_t, c_void_p
from json import loads
from pathlib import Path

import numpy as np
import pytest

from edgedec.core.errors import MemoryBudgetError
from edgedec.core.ledger import Ledger
from edgedec.core.units import size, size_up
from edgedec.native.probe import function, text_function
from edgedec.system import memory


def test_sizes_in_words() -> None:
    call = text_function("size_text", c_int64, c_int)
    rng = np.random.default_rng(0)
    counts = [0, 1, 999, 1000, 1049, 1050, 1051, 1150, 999_949, 999_950, 999_999, 10**15, 2**50]
    counts += [int(10 ** float(rng.uniform(0, 15))) for _ in range(500)] + [n * 50 for n in range(20, 400)]
    for count in counts:
        assert call(count, 0).decode() == size(count)
        assert call(count, 1).decode() == size_up(count)


def test_a_ledger_counts_and_refuses_as_python_does() -> None:
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(200):
        share = int(rng.integers(0, 3000)) * 1000 if rng.random() < 0.8 else None
        ledger = Ledger(None if share is None else {"tables": share, "slack": 5_000_000})
        steps, held, error = [], 0, None
        for _ in range(10):
            step = int(rng.integers(0, 500_000)) if rng.random() < 0.7 else -int(rng.integers(0, held + 1))
            steps.append(step)
            try:
                ledger.taken("tables", step) if step >= 0 else ledger.returned("tables", -step)
            except MemoryBudgetError as found:
                error = {"code": 10, "message": found.message, "hint": found.hint}
                break
            held += step
        facts, array = (c_int64 * 2)(), (c_int64 * len(steps))(*steps)
        call = text_function("leases", c_int64, c_void_p, c_size_t, c_void_p)
        said = call(-1 if share is None else share, array, len(steps), facts)
        assert (loads(said) if said else None) == error
        assert list(facts) == [ledger.by_name().get("tables", 0), ledger.most().get("tables", 0)]
        refused += error is not None
    assert 20 < refused < 190


def test_the_process_is_measured_as_python_does(tmp_path: Path) -> None:
    path = tmp_path / "some pages"
    path.write_bytes(bytes(1 << 20))
    found = (c_int64 * 4)()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
        assert sum(pages[:: 1 << 12]) == 0
        function("process", None, c_char_p, c_char_p, c_void_p)(path.name.encode(), str(path).encode(), found)
        assert found[2] == memory.mapped_rss_bytes(path.name) == 1 << 20
        assert found[3] == memory.mapped_bytes(path) == 1 << 20
    assert found[0] == pytest.approx(memory.rss_bytes(), rel=0.1)
    assert found[1] == pytest.approx(memory.peak_rss_bytes(), rel=0.1)
