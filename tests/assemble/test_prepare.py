"""Drafters, small models, budgets and conversations over tiny models: who drafts, and what is given up.

The table holds for a process of 50 MB. It was compared, row by row, with the assembly that came before.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from edgedec.assemble import budget as budgets
from edgedec.assemble.config import RunConfig
from edgedec.assemble.prepare import Bundles, prepare
from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.bundle.drafter_manifest import HEAD, Target
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import EdgeDecError
from edgedec.drafters.trim import SAVED, ends_of, save_trim
from edgedec.export.draft_head.bundle import export_head
from edgedec.system import memory as system_memory
from tests.fixtures.draft_heads import random_head
from tests.fixtures.tiny_models import tiny_bundle

# Artefacts of the model, --draft, --switch, MB of --memory, conversations: who drafts / what is given up.
TABLE = """
plain  off         -      -    1  -
plain  auto        -      -    1  lookup recycling
plain  auto        -      300  1  lookup recycling / all
plain  auto        -      60   1  lookup recycling / tables
plain  auto        -      57   1  - / prompts drafts cache context
plain  auto        -      -    2  lookup recycling
plain  auto        -      300  2  lookup recycling / all
plain  auto        small  -    1  lookup recycling small
plain  auto        small  300  1  lookup recycling small / all
plain  auto        small  60   1  lookup recycling / prompts tables drafter
plain  auto,exit   -      300  1  lookup recycling / all
plain  exit-1      -      300  1  exit-1 / all
plain  exit-99     -      57   1  UsageError
plain  auto,small  -      -    1  lookup recycling small
plain  auto,small  -      300  1  lookup recycling small / all
plain  auto,small  -      60   1  lookup recycling small / prompts tables
plain  auto,small  -      58   1  lookup recycling / prompts tables drafter
plain  small       -      -    2  small
plain  head        -      300  1  NotFoundError
both   off         -      -    1  -
both   auto        -      -    1  lookup recycling exit-2 head
both   auto        -      300  1  lookup recycling exit-2 head / all
both   auto        -      60   1  lookup recycling exit-2 / prompts tables drafter
both   auto        -      57   1  - / prompts drafter drafts cache context
both   auto        -      -    2  lookup recycling
both   auto        -      300  2  lookup recycling / all
both   auto        small  -    1  lookup recycling exit-2 head small
both   auto        small  300  1  lookup recycling exit-2 head small / all
both   auto        small  60   1  lookup recycling exit-2 / prompts tables drafter
both   auto,exit   -      300  1  lookup recycling head / all
both   auto,small  -      -    1  lookup recycling exit-2 head small
both   auto,small  -      300  1  lookup recycling exit-2 head small / all
both   auto,small  -      59   1  lookup recycling exit-2 / prompts tables drafter
both   head        -      300  1  head / all
known  auto        -      -    1  lookup recycling small
known  auto        -      300  1  lookup recycling small / all
known  auto        -      60   1  lookup recycling / tables
known  auto        -      -    2  lookup recycling small
known  auto        small  300  1  lookup recycling small / all
known  auto,small  -      60   1  lookup recycling small / prompts tables
"""
ROWS = [line for line in TABLE.splitlines() if line]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    made = {name: tiny_bundle(folder, seed=seed) for seed, name in enumerate(("large", "small"))}
    return {name: Path(shutil.copytree(bundle, folder / name)) for name, bundle in made.items()}


@pytest.fixture(scope="module")
def homes(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A home without drafters, and one with a trimmed head and a trained one."""
    home = tmp_path_factory.mktemp("home")
    found = {name: home / name for name in ("plain", "both")}
    manifest = Manifest.load(models["large"])
    ids = np.union1d(np.arange(0, 200, 2), ends_of(manifest))
    save_trim(manifest, found["both"], ids, {SAVED: 0.6})
    head = random_head(manifest.spec.hidden_size, manifest.spec.vocab_size, ids=200)
    export_head(
        head,
        models["large"],
        found["both"] / "drafters" / Target.of(manifest).short_hash / HEAD,
        quant="q8_0",
    )
    return found | {"known": found["plain"]}


@pytest.fixture(autouse=True)
def _the_same_machine_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "rss_bytes", lambda: 50_000_000)
    monkeypatch.setattr(budgets, "mapped_rss_bytes", lambda name: 0)
    monkeypatch.setattr(system_memory, "available_bytes", lambda: 1 << 40)


def outcome(
    models: dict[str, Path], context: RunContext, draft: str, switch: str, memory: str, count: str
) -> str:
    try:
        config = RunConfig(
            threads=1,
            draft=draft,
            switch=None if switch == "-" else switch,
            memory=None if memory == "-" else int(memory) * 1_000_000,
            conversations=None if count == "1" else int(count),
        )
        prepared = prepare(config, Bundles(models["large"], {"small": models["small"]}), context)
        if config.conversations:
            batch = Runner(prepared)
            engine = batch.engines[0]
            batch.close()
        else:
            engine = Runner(prepared).engine
    except EdgeDecError as error:
        return type(error).__name__
    drafters = " ".join(engine.speculation.drafters) if engine.speculation else "-"
    if prepared.budget is None:
        return drafters
    lost = " ".join(line.partition(":")[0] for line in prepared.budget.plan.given_up)
    return f"{drafters} / {lost or 'all'}"


@pytest.mark.parametrize("row", ROWS)
def test_who_drafts_and_what_is_given_up(models: dict[str, Path], homes: dict[str, Path], row: str) -> None:
    has, draft, switch, memory, count, expected = row.split(maxsplit=5)
    known = models["small"] if has == "known" else None
    context = RunContext(homes[has], lambda line: None, known=lambda bundle: known)
    assert outcome(models, context, draft, switch, memory, count) == expected


@pytest.mark.parametrize("draft", ["auto", "auto,exit", "lookup", "head"])
def test_a_budget_in_which_nothing_is_given_up_is_the_plan_of_a_run_without_one(
    models: dict[str, Path], homes: dict[str, Path], draft: str
) -> None:
    def parts(memory: int | None) -> dict[str, int]:
        config = RunConfig(threads=1, draft=draft, memory=memory)
        return prepare(config, Bundles(models["large"]), RunContext(homes["both"])).plan().plan.parts

    assert parts(None) == parts(1 << 40)
