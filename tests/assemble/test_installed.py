"""Drafters that "auto" has because they belong to the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import edgedec
from edgedec.api import Bundles
from edgedec.assemble.config import RunConfig
from edgedec.assemble.installed import with_installed
from edgedec.assemble.runner import Runner
from edgedec.core.drafter_manifest import DRAFTER, HEAD, Target
from edgedec.core.manifest import Manifest
from edgedec.drafters.trim import SAVED, ends_of, save_trim
from edgedec.export.draft_head.bundle import export_head
from edgedec.models import Store
from tests.fixtures.draft_heads import random_head
from tests.fixtures.tiny_models import tiny_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("installed"))


def add_head(bundle: Path, home: Path) -> None:
    manifest = Manifest.load(bundle)
    weights = random_head(manifest.spec.hidden_size, manifest.spec.vocab_size, ids=200)
    export_head(weights, bundle, home / "drafters" / Target.of(manifest).short_hash / HEAD)


def add_trim(bundle: Path, home: Path, saved: float) -> None:
    manifest = Manifest.load(bundle)
    ids = np.array(sorted({*ends_of(manifest), *range(40, 120)}), dtype=np.int64)
    save_trim(manifest, home, ids, {SAVED: saved})


def test_a_head_drafts_without_being_named(bundle: Path, tmp_path: Path) -> None:
    add_head(bundle, tmp_path)

    def draft(config: RunConfig) -> str:
        return with_installed(config, bundle, tmp_path).draft

    assert draft(RunConfig()) == "auto,head"
    assert draft(RunConfig(draft="auto,exit")) == "auto,exit,head"
    for other in ("off", "lookup", "head", "auto,head"):
        assert draft(RunConfig(draft=other)) == other
    assert draft(RunConfig(conversations=4)) == "auto"
    config = RunConfig()
    assert with_installed(config, bundle, None) is config
    with edgedec.open(Bundles(bundle), RunConfig(threads=1), store=Store(tmp_path)) as model:
        assert isinstance(model.runner, Runner)
        assert model.runner.engine.speculation
        assert HEAD in model.runner.engine.speculation.drafters


def test_a_trimmed_head_that_saves_most_of_a_pass_makes_the_last_exit_draft(
    bundle: Path, tmp_path: Path
) -> None:
    add_trim(bundle, tmp_path, saved=0.6)
    assert with_installed(RunConfig(), bundle, tmp_path).draft == "auto,exit-2"
    assert with_installed(RunConfig(draft="auto,exit"), bundle, tmp_path).draft == "auto,exit"
    assert with_installed(RunConfig(draft="lookup"), bundle, tmp_path).draft == "lookup"
    with edgedec.open(Bundles(bundle), RunConfig(threads=1), store=Store(tmp_path)) as model:
        assert isinstance(model.runner, Runner)
        assert model.runner.engine.speculation
        assert "exit-2" in model.runner.engine.speculation.drafters


def test_a_trimmed_head_that_saves_little_changes_nothing(bundle: Path, tmp_path: Path) -> None:
    add_trim(bundle, tmp_path, saved=0.3)
    assert with_installed(RunConfig(), bundle, tmp_path).draft == "auto"


def test_a_broken_trimmed_head_changes_nothing(bundle: Path, tmp_path: Path) -> None:
    add_trim(bundle, tmp_path, saved=0.6)
    (broken,) = tmp_path.rglob(DRAFTER)
    broken.write_text("{")
    assert with_installed(RunConfig(), bundle, tmp_path).draft == "auto"


def test_a_bundle_that_cannot_be_read_has_none(tmp_path: Path) -> None:
    assert with_installed(RunConfig(), tmp_path / "none", tmp_path).draft == "auto"
