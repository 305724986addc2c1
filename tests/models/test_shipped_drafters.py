"""Drafters that are shipped with the package: whole, found by their models, small, and with a licence."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.bundle.drafter_manifest import TABLES, DrafterManifest
from edgedec.draft import Recycling
from edgedec.drafters.artifacts import artifacts
from edgedec.drafters.tables import read_table
from edgedec.export.adapter import WeightAdapter
from edgedec.models.adapters import packaged_adapter
from edgedec.models.catalogue import CATALOGUE
from tests.conftest import ROOT

MOST_IN_ALL_BYTES = 40_000_000
SHIPPED = sorted(path.parent for path in ROOT.glob("models/drafters/*/*/drafter.json"))
ADAPTERS = sorted(ROOT.glob("models/drafters/*/adapter/*"))


def names(folders: list[Path]) -> list[str]:
    return [f"{folder.parent.name}-{folder.name}" for folder in folders]


@pytest.mark.parametrize("folder", SHIPPED, ids=names(SHIPPED))
def test_a_shipped_drafter_is_whole_and_found_by_its_model(folder: Path) -> None:
    manifest = DrafterManifest.load(folder)
    assert folder.name == manifest.kind
    assert folder.parent.name == manifest.target.short_hash
    assert manifest.facts["licence"]
    (found,) = (one for one in artifacts(manifest.target, None) if one.kind == manifest.kind)
    assert found.shipped
    assert found.checked(manifest.target) == manifest


@pytest.mark.parametrize("folder", [one for one in SHIPPED if one.name == TABLES])
def test_shipped_tables_can_be_restored(folder: Path) -> None:
    manifest = DrafterManifest.load(folder)
    (name,) = manifest.files
    table = read_table((folder / name).read_bytes(), name)
    Recycling.within(Recycling.useful_bytes).restore(table, manifest.target.vocab_size)
    better, without = (
        float(manifest.facts[f"tokens per round of 8 drafted{more}"]) for more in ("", ", without")
    )
    assert better > without


def test_all_of_them_are_small() -> None:
    assert sum(DrafterManifest.load(one).total_bytes for one in SHIPPED) <= MOST_IN_ALL_BYTES


def test_every_adapter_makes_a_draft_model_of_the_catalogue() -> None:
    made = {entry.name: entry for entry in CATALOGUE.values() if entry.base}
    assert {path.stem for path in ADAPTERS} == made.keys()
    for path in ADAPTERS:
        about, entry = WeightAdapter.load(path).about, made[path.stem]
        assert packaged_adapter(entry.recipe) == path
        assert (about.name, about.base_sha256) == (entry.name, entry.recipe.sha256)
        assert about.merged
        assert about.target_sha256[:16] == path.parent.parent.name
        assert CATALOGUE[about.target].drafter == entry.name
        assert float(about.facts["tokens a pass after"]) > float(about.facts["tokens a pass before"])


def test_there_is_one_for_smollm2() -> None:
    assert "smollm2-135m" in {DrafterManifest.load(one).target.name for one in SHIPPED}
