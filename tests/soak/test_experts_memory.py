"""Models with experts keep within their budget: some runs of ``experts_memory``, which makes any number."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.experts_memory import runs, write_models


@pytest.mark.slow
def test_no_peak_is_over_its_budget(tmp_path: Path) -> None:
    found = list(runs(write_models(tmp_path), 12, seed=3))
    assert len({run.given["name"] for run in found}) > 2
    assert max(run.share for run in found) <= 1
