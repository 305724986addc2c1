"""What "auto" stands for: the drafters that every model has, and those that belong to this one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import edgedec
from edgedec.assemble.prepare import Bundles
from edgedec.assemble.runner import Runner
from edgedec.bundle.drafter_manifest import DRAFTER, HEAD, Target
from edgedec.bundle.manifest import Manifest
from edgedec.drafters.interface import SearchContext
from edgedec.drafters.registry import parsed, resolved
from edgedec.drafters.trim import SAVED, ends_of, save_trim
from edgedec.export.draft_head.bundle import export_head
from edgedec.models import Store
from tests.fixtures.draft_heads import random_head

EVERY = ["lookup", "recycling"]


def add_head(bundle: Path, home: Path) -> None:
    manifest = Manifest.load(bundle)
    weights = random_head(manifest.spec.hidden_size, manifest.spec.vocab_size, ids=200)
    export_head(weights, bundle, home / "drafters" / Target.of(manifest).short_hash / HEAD)


def add_trim(bundle: Path, home: Path, saved: float) -> None:
    manifest = Manifest.load(bundle)
    ids = np.array(sorted({*ends_of(manifest), *range(40, 120)}), dtype=np.int64)
    save_trim(manifest, home, ids, {SAVED: saved})


def names(draft: str, bundle: Path, home: Path | None, **facts: object) -> list[str]:
    place = SearchContext(Manifest.load(bundle), home, **facts)  # type: ignore[arg-type]
    return [one.name for one in resolved(parsed(draft), place).drafters]


def test_a_head_drafts_without_being_named(bundle: Path, tmp_path: Path) -> None:
    add_head(bundle, tmp_path)
    assert names("auto", bundle, tmp_path) == [*EVERY, "head"]
    assert names("auto,exit", bundle, tmp_path) == [*EVERY, "exit", "head"]
    assert names("auto,head", bundle, tmp_path) == [*EVERY, "head"]
    for other in ("lookup", "head"):
        assert names(other, bundle, tmp_path) == [other]
    assert names("off", bundle, tmp_path) == []
    assert names("auto", bundle, tmp_path, batch=True) == EVERY
    assert names("auto", bundle, None) == EVERY
    with edgedec.open(Bundles(bundle), threads=1, store=Store(tmp_path)) as model:
        assert isinstance(model.runner, Runner)
        assert model.runner.engine.speculation
        assert HEAD in model.runner.engine.speculation.drafters


def test_a_trimmed_head_that_saves_most_of_a_pass_makes_the_last_exit_draft(
    bundle: Path, tmp_path: Path
) -> None:
    add_trim(bundle, tmp_path, saved=0.6)
    assert names("auto", bundle, tmp_path) == [*EVERY, "exit-2"]
    assert names("auto,exit", bundle, tmp_path) == [*EVERY, "exit"]
    assert names("lookup", bundle, tmp_path) == ["lookup"]
    with edgedec.open(Bundles(bundle), threads=1, store=Store(tmp_path)) as model:
        assert isinstance(model.runner, Runner)
        assert model.runner.engine.speculation
        assert "exit-2" in model.runner.engine.speculation.drafters


def test_a_trimmed_head_that_saves_little_changes_nothing(bundle: Path, tmp_path: Path) -> None:
    add_trim(bundle, tmp_path, saved=0.3)
    assert names("auto", bundle, tmp_path) == EVERY


def test_a_broken_trimmed_head_changes_nothing(bundle: Path, tmp_path: Path) -> None:
    add_trim(bundle, tmp_path, saved=0.6)
    (broken,) = tmp_path.rglob(DRAFTER)
    broken.write_text("{")
    assert names("auto", bundle, tmp_path) == EVERY


def test_the_small_model_of_a_pair_drafts_too(bundle: Path, tmp_path: Path) -> None:
    assert names("auto", bundle, tmp_path, switch="small", known=Path("other")) == [*EVERY, "small"]
    assert names("lookup", bundle, tmp_path, switch="small") == ["lookup"]


def test_a_known_draft_model_drafts_unless_there_is_a_reason(bundle: Path, tmp_path: Path) -> None:
    known = {"known": Path("small-10m")}
    assert names("auto", bundle, tmp_path, **known) == [*EVERY, "small-10m"]
    assert names("auto,other", bundle, tmp_path, **known) == [*EVERY, "other"]
    place = SearchContext(Manifest.load(bundle), tmp_path, missing=lambda: "it is full", **known)
    found = resolved(parsed("auto"), place)
    assert [one.name for one in found.drafters] == EVERY
    assert found.lines == ("Tiny llama runs without small-10m: it is full",)
