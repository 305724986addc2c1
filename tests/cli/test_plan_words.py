"""The words that ``edgedec plan`` has for the parts of a memory plan."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.assemble import budget as budgets
from edgedec.backends.state_snapshots import SNAPSHOTS
from edgedec.cli.plan import LOST, WHY, in_mb
from edgedec.core.cache_kinds import Keys, States
from edgedec.core.model_spec import ModelSpec
from edgedec.memory.footprint import ExpertMemory, MemoryChoice, MemoryFacts, ModelMemory, footprint
from edgedec.memory.plan import milestones
from tests.bench.test_budgets import KNOWN, WANTED
from tests.cli.support import Home, ran, run
from tests.fixtures.tiny_gguf import write_tiny

SPEC = ModelSpec("small", "llama", 49152, 30, 9, 3, 64, 576, 8192, ffn_size=1536)


@pytest.fixture(autouse=True)
def _the_same_process_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "rss_bytes", lambda: 100_000_000)
    monkeypatch.setattr(budgets, "mapped_rss_bytes", lambda name: 0)


def test_every_part_of_a_plan_has_its_words() -> None:
    kinds = (Keys("kv_cache", 10, 3, 64), States("delta", 20, 600, 3, 9000))
    model = ModelMemory(
        replace(SPEC, caches=kinds),
        98_000_000,
        threads=2,
        hidden=3 * 576,
        exits=8,
        experts=ExpertMemory(7 << 20, 8, 700),
    )
    everything = MemoryFacts(model, 85_000_000, drawing=120, small=model, speckv=True)
    parts = footprint(everything, MemoryChoice(4096, tables=1_000_000, model_drafts=True, experts=9))
    assert {*parts, SNAPSHOTS} == {*WHY}  # what a plan leaves over becomes snapshots


def test_everything_that_a_budget_can_cost_has_its_words() -> None:
    kinds = {line.partition(":")[0] for _, line in milestones(KNOWN, replace(WANTED, model_drafts=True))}
    assert kinds - {"context"} <= LOST.keys()


def test_what_is_given_up_is_said_once(home: Home, tmp_path: Path) -> None:
    given = ("plan", "-m", str(write_tiny(tmp_path / "tiny.gguf")), "--json")
    stones = json.loads(run(home.real(), *given).stdout)["milestones"]
    done = ran(home.real(), *given[:-1], "--memory", str(stones[-1]["bytes"] - 1))
    assert done.stdout.count("Given up to fit:\n") == 1
    assert done.stderr == ""


def test_what_is_given_up_already_does_not_come_again_as_what_would_be(home: Home, tmp_path: Path) -> None:
    given = ("plan", "-m", str(write_tiny(tmp_path / "tiny.gguf")), "--json")
    stones = [stone["bytes"] for stone in json.loads(run(home.real(), *given).stdout)["milestones"]]
    budget = stones[len(stones) // 2]
    told = run(home.real(), *given[:-1], "--memory", str(budget)).stdout
    rows = told.partition("With less than")[2].splitlines()[1:]
    assert rows
    assert all(float(row.split()[0]) <= budget / 1e6 + 0.1 for row in rows)


def test_thresholds_above_a_gigabyte_differ_and_each_loss_is_said_once(home: Home, tmp_path: Path) -> None:
    """Steps of 1.2613 and 1.2641 GB were all shown as 1.3 GB."""
    told = run(home.real(), "plan", "-m", str(write_tiny(tmp_path / "tiny.gguf"))).stdout
    assert "GB" not in told
    rows = told.partition("With less than")[2].splitlines()[1:]
    amounts = [float(row.split()[0]) for row in rows]
    assert amounts == sorted(amounts, reverse=True)
    assert len({row.split(maxsplit=2)[2] for row in rows}) == len(rows)
    assert in_mb(1_261_300_000) != in_mb(1_264_100_000)
