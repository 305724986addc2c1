"""Pictures of reports: words and numbers that stand in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgedec.bench.harness.pairing import Spread
from edgedec.bench.plots.kernels import draw_pass_costs
from edgedec.bench.studies.kernels import KernelReport, PassCost

pytest.importorskip("matplotlib")


def cost(tokens: int) -> PassCost:
    spread = Spread(1.0 + tokens / 4, 0.9 + tokens / 4, 1.1 + tokens / 4)
    return PassCost(tokens, spread, spread)


def test_axes_of_pass_costs_read_1_2_4_8(tmp_path: Path) -> None:
    costs = tuple(cost(tokens) for tokens in (1, 2, 4, 8, 16, 32))
    report = KernelReport("some model", "avx2", 2, 0, 1000, 10.0, costs)
    draw_pass_costs(report, tmp_path / "passes.svg")
    drawn = re.findall(r"<!-- (.*?) -->", (tmp_path / "passes.svg").read_text(encoding="utf-8"))
    numbers = [text for text in drawn if text[:1].isdigit() or "$" in text]
    assert numbers[:6] == ["1", "2", "4", "8", "16", "32"]
    assert numbers[6:] == ["1", "2", "4", "8", "16", "32"]
