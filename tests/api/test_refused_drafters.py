"""A drafter that cannot be used is refused with the reason, and the model replies without it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import edgedec
from edgedec.api import Bundles
from edgedec.assemble.config import RunConfig
from edgedec.bundle.drafter_manifest import DRAFTER, HEAD, TABLES, TRIM
from edgedec.bundle.manifest import Manifest
from edgedec.disk.listed_files import sealed
from edgedec.drafters.artifacts import new_artifact
from edgedec.drafters.tables import write_table
from edgedec.drafters.trim import SAVED, ends_of, save_trim
from edgedec.export.draft_head.bundle import export_head
from edgedec.models import Store
from edgedec.training.rollouts import Rollout
from edgedec.training.tables import contexts_of, recycling_table
from tests.fixtures.draft_heads import random_head

EVERY = "recycling,exit-1,head"
SAID = {
    HEAD: "runs without its trained head",
    TABLES: "runs without its prepared tables",
    TRIM: "drafts with its full head",
}


@pytest.fixture(scope="module")
def whole(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which the model has a drafter of each kind."""
    home = tmp_path_factory.mktemp("home")
    manifest = Manifest.load(bundle)
    spec = manifest.spec
    save_trim(manifest, home, np.union1d(np.arange(0, 200, 2), ends_of(manifest)), {SAVED: 0.5})
    with new_artifact(manifest, TABLES, home, {}) as folder:
        write_table(folder, "recycling", recycling_table(contexts_of([Rollout([1], [5, 6, 7], "0", True)])))
    place = next((home / "drafters").iterdir()) / HEAD
    export_head(random_head(spec.hidden_size, spec.vocab_size, ids=200), bundle, place, quant="q8_0")
    return home


@pytest.fixture(scope="module")
def plain(bundle: Path) -> str:
    with edgedec.open(bundle, RunConfig(threads=1, draft="off")) as model:
        return model.complete("abc", max_tokens=16).read()


def reply(bundle: Path, home: Path, draft: str = EVERY) -> tuple[str, list[str]]:
    lines: list[str] = []
    config = RunConfig(threads=1, context=128, draft=draft)
    with edgedec.open(Bundles(bundle), config, store=Store(home), notice=lines.append) as model:
        said = model.complete("abc", max_tokens=16).read()
    return said, [line for line in lines if "measuring" not in line]


def damaged(folder: Path) -> None:
    path = max((one for one in folder.iterdir() if one.name != DRAFTER), key=lambda one: one.stat().st_size)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def of_another_model(folder: Path) -> None:
    edit(folder, {"name": "large", "sha256": "0" * 64})


def of_another_vocabulary(folder: Path) -> None:
    edit(folder, {"vocab_size": 77})


def incomplete(folder: Path) -> None:
    next(one for one in folder.iterdir() if one.name != DRAFTER).unlink()


def edit(folder: Path, target: dict[str, object]) -> None:
    data = json.loads((folder / DRAFTER).read_text())
    data["target"] |= target
    (folder / DRAFTER).write_text(sealed(data))


def test_a_model_with_every_kind_replies_as_without(bundle: Path, whole: Path, plain: str) -> None:
    assert reply(bundle, whole) == (plain, [])


@pytest.mark.parametrize("kind", [HEAD, TABLES, TRIM])
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (damaged, "fails its SHA-256"),
        (of_another_model, "belongs to large, not to Tiny llama"),
        (of_another_vocabulary, "is for 77 tokens"),
        (incomplete, "lacks "),
    ],
)
def test_one_that_cannot_be_used_costs_one_line(
    bundle: Path,
    whole: Path,
    plain: str,
    tmp_path: Path,
    kind: str,
    spoil: Callable[[Path], None],
    reason: str,
) -> None:
    home = shutil.copytree(whole, tmp_path / "home")
    spoil(next((home / "drafters").iterdir()) / kind)
    said, lines = reply(bundle, home)
    assert said == plain
    (line,) = lines
    assert SAID[kind] in line
    assert reason in line
