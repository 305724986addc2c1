"""Trimmed heads on the disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError
from edgedec.draft.model import ModelDrafter
from edgedec.drafters.artifacts import new_artifact
from edgedec.drafters.model import model_drafter
from edgedec.drafters.trim import IDS, SAVED, ends_of, kept_ids, remove_trim, save_trim, trimmed_head
from edgedec.loaded_model import load_model
from tests.fixtures.tiny_models import prepared_run


@pytest.fixture(scope="module")
def manifest(bundle: Path) -> Manifest:
    return Manifest.load(bundle)


def ids_of(manifest: Manifest, *others: int) -> np.ndarray:
    return np.array(sorted({*ends_of(manifest), *others}), dtype=np.int64)


def test_what_was_written_is_read(manifest: Manifest, tmp_path: Path) -> None:
    assert kept_ids(manifest, tmp_path) is None
    ids = ids_of(manifest, 5, 7)
    save_trim(manifest, tmp_path, ids, {SAVED: 0.5})
    found = kept_ids(manifest, tmp_path)
    assert found is not None
    assert found.dtype == np.int64
    assert np.array_equal(found, ids)
    save_trim(manifest, tmp_path, ids_of(manifest, 5), {SAVED: 0.5})
    assert np.array_equal(kept_ids(manifest, tmp_path), ids_of(manifest, 5))  # type: ignore[arg-type]


def test_it_can_be_removed(manifest: Manifest, tmp_path: Path) -> None:
    remove_trim(manifest, tmp_path)
    save_trim(manifest, tmp_path, ids_of(manifest, 5), {SAVED: 0.5})
    remove_trim(manifest, tmp_path)
    assert kept_ids(manifest, tmp_path) is None


def test_another_model_has_no_part_in_it(manifest: Manifest, tmp_path: Path) -> None:
    save_trim(manifest, tmp_path, ids_of(manifest), {SAVED: 0.5})
    entry = manifest.files["weights.bin"]
    other = replace(manifest, files={**manifest.files, "weights.bin": replace(entry, sha256="1" * 64)})
    assert kept_ids(other, tmp_path) is None


def test_ids_that_no_head_can_have_are_not_written(manifest: Manifest, tmp_path: Path) -> None:
    for wrong in (ids_of(manifest)[1:], ids_of(manifest, manifest.spec.vocab_size)):
        with pytest.raises(ValueError, match="cannot be trimmed"):
            save_trim(manifest, tmp_path, wrong, {SAVED: 0.5})
    assert kept_ids(manifest, tmp_path) is None


@pytest.mark.parametrize(
    ("ids", "facts", "named"),
    [
        ([3, 2, 1, 0], {SAVED: 0.5}, "do not ascend"),
        ([0, 1, 2, 3, 1 << 20], {SAVED: 0.5}, "outside a vocabulary"),
        ([], {SAVED: 0.5}, "keeps no tokens"),
        (None, {}, "saves"),
        (None, {SAVED: 1.5}, "saves"),
    ],
)
def test_a_file_that_is_no_trimmed_head_is_named(
    manifest: Manifest,
    bundle: Path,
    tmp_path: Path,
    ids: list[int] | None,
    facts: dict[str, float],
    named: str,
) -> None:
    manifest = Manifest.load(bundle)
    with new_artifact(manifest, "trim", tmp_path, facts) as folder:
        (folder / IDS).write_bytes(np.array(ids_of(manifest) if ids is None else ids, "<i4").tobytes())
    with pytest.raises(BadFileError, match=named):
        kept_ids(manifest, tmp_path)
    said: list[str] = []
    model = load_model(bundle, threads=1, drafting=True)
    assert trimmed_head(model, model, tmp_path, said.append) is None
    assert len(said) == 1
    assert named in said[0]


def test_a_draft_model_drafts_with_its_trimmed_head(
    manifest: Manifest, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ModelDrafter] = []

    def noted(*given: Any) -> ModelDrafter:
        made.append(model_drafter(*given))
        return made[-1]

    monkeypatch.setattr("edgedec.drafters.model.model_drafter", noted)
    monkeypatch.setattr("edgedec.core_lib.drafters.DOUBTS", (9.0, 1e-9))  # random weights are sure of nothing
    config = RunConfig(threads=1, context=256, draft="small")

    def drafted() -> set[int]:
        Runner(prepared_run(bundle, config, RunContext(home=tmp_path), small=bundle))
        small = made[-1]
        found: set[int] = set()
        for first in range(5, 45):
            small.begin([first, 6, 7], 0)
            found.update(set(small.propose(8).tokens) - {first, 6, 7})
        return found

    every = drafted()
    keep = ids_of(manifest, *sorted(every)[::2])
    assert not every <= set(keep.tolist())
    save_trim(manifest, tmp_path, keep, {SAVED: 0.5})
    trimmed = drafted()
    assert trimmed
    assert trimmed <= set(keep.tolist())
