"""``edgedec plan`` of a model with experts: what each budget is worth."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.assemble import budget as budgets
from edgedec.cli.services import Services
from tests.cli.support import Home, ran, run
from tests.fixtures.tiny_experts import ExpertShape
from tests.fixtures.tiny_gguf import TinyShape, write_tiny

SHAPE = TinyShape(layers=3, experts=ExpertShape(count=24, chosen=2, width=32))


@pytest.fixture(autouse=True)
def _the_same_process_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "rss_bytes", lambda: 100_000_000)
    monkeypatch.setattr(budgets, "mapped_rss_bytes", lambda name: 0)


def services(home: Home) -> Services:
    given: Services = home.real()
    return replace(given, bandwidth=lambda size, threads: 8.0)


def test_a_row_for_each_budget_up_to_the_one_with_all_experts(home: Home, tmp_path: Path) -> None:
    path = str(write_tiny(tmp_path / "tiny.gguf", "qwen3moe", shape=SHAPE))
    done = ran(services(home), "plan", path, "--json")
    report = json.loads(done.stdout)
    worth = report["experts"]
    assert (worth["memory_bytes_per_s"], worth["again"]) == (8_000_000_000, 0.35)
    assert [one["slots"] for one in worth["budgets"]] == [8, 9, 18, 27, 36, 54, 72]
    assert worth["budgets"][-1]["hits"] == 1.0
    assert abs(worth["budgets"][-1]["memory"] - report["planned_bytes"]) < 4096 * 72
    shown = run(services(home), "plan", path).stdout
    assert "8 of 72" in shown
    assert "all experts are there" in shown
    assert "With less than" not in shown  # experts come from the disk before anything is given up


def test_what_a_token_misses_is_what_it_is_expected_to(home: Home, tmp_path: Path) -> None:
    path = str(write_tiny(tmp_path / "tiny.gguf", "qwen3moe", shape=SHAPE))
    budgets = json.loads(run(services(home), "plan", path, "--json").stdout)["experts"]["budgets"]
    half = next(one for one in budgets if one["slots"] == 36)
    done = ran(services(home), "plan", path, "--memory", str(half["memory"]))
    assert "With less than" in done.stdout
    assert " of 72 experts; a token reads about " in done.stdout
    assert f"{half['hits']:.0%}" in done.stdout


def test_other_models_have_no_such_rows(home: Home, tmp_path: Path) -> None:
    path = str(write_tiny(tmp_path / "tiny.gguf"))
    assert "experts" not in json.loads(run(services(home), "plan", path, "--json").stdout)
    assert "experts" not in run(services(home), "plan", path).stdout
