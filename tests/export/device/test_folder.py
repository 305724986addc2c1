"""A device's folder: whole or not at all, with the right drafters, and a bundle for every machine."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import edgedec
from edgedec.bundle.device_folder import DEVICE, CarriedDrafter, DeviceFolder
from edgedec.bundle.drafter_manifest import HEAD, TABLES, TRIM, Target
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError, NotFoundError, StorageError, UnsupportedError, UsageError
from edgedec.disk.listed_files import FileEntry, sealed
from edgedec.draft import Recycling
from edgedec.draft.bridge import TextBridge
from edgedec.drafters.artifacts import new_artifact
from edgedec.drafters.pairing import bridge
from edgedec.drafters.tables import write_table
from edgedec.drafters.trim import SAVED, ends_of, save_trim
from edgedec.export.device import DeviceOrder, choose_drafters, named_model, write_device_folder
from edgedec.export.draft_head.bundle import export_head
from edgedec.loaded_model import load_model
from edgedec.models import Store
from edgedec.models.pairs import installed_drafter
from tests.fixtures.bridged import to_target as counterparts
from tests.fixtures.draft_heads import random_head
from tests.fixtures.tiny_models import tiny_bundle


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def target(place: Path) -> Path:
    return tiny_bundle(place)


@pytest.fixture(scope="module")
def other(place: Path) -> Path:
    """Another vocabulary than the target's."""
    return tiny_bundle(place, "gemma3", seed=3)


@pytest.fixture(scope="module")
def same(place: Path) -> Path:
    """Other weights with the target's vocabulary."""
    return tiny_bundle(place, "llama", seed=4)


def add_drafters(bundle: Path, home: Path) -> None:
    """One of each kind; the table is some bytes."""
    manifest = Manifest.load(bundle)
    head = random_head(manifest.spec.hidden_size, manifest.spec.vocab_size, ids=200)
    export_head(head, bundle, home / "drafters" / Target.of(manifest).short_hash / HEAD)
    save_trim(manifest, home, np.array(sorted({*ends_of(manifest), *range(40, 120)})), {SAVED: 0.7})
    with new_artifact(manifest, TABLES, home, {}) as folder:
        write_table(folder, Recycling.name, b"answers")


def write(bundle: Path, home: Path, out: Path, *names: str, model: Path | None = None) -> DeviceFolder:
    chosen = choose_drafters(names, bundle, home)
    return write_device_folder(DeviceOrder("android", bundle, chosen, model, home), out)


def files_under(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_everything_is_listed_with_its_hash(target: Path, other: Path, tmp_path: Path) -> None:
    add_drafters(target, tmp_path / "home")
    out = tmp_path / "phone"
    made = write(target, tmp_path / "home", out, model=other)
    assert DeviceFolder.load(out, verify=True) == made
    assert files_under(out) == {*made.files, DEVICE}
    assert any(name.endswith("chat_template.program") for name in made.files)
    assert made.target == Target.of(Manifest.load(target))
    assert {one.kind: one for one in made.drafters} == {
        "trim": CarriedDrafter("trim", "drafters/trim"),
        "tables": CarriedDrafter("tables", "drafters/tables"),
        "head": CarriedDrafter("head", "drafters/head"),
        "model": CarriedDrafter("model", f"models/{other.name}", f"maps/{other.name}"),
    }
    assert not [name for name in made.files if name.endswith("tokenizer.json")]
    assert f"models/{other.name}/tokenizer.table" in made.files
    assert {"chat_template.jinja", "chat_template.program"} <= made.files.keys()
    Manifest.load(out, verify=True)
    Manifest.load(out / "models" / other.name, verify=True)


def test_a_folder_whose_list_is_damaged_is_not_opened(target: Path, tmp_path: Path) -> None:
    out = tmp_path / "phone"
    write(target, tmp_path / "home", out)
    whole = (out / DEVICE).read_text()
    for damaged in (whole[:-9], whole.replace("android", "andreid"), "", "{}"):
        (out / DEVICE).write_text(damaged)
        with pytest.raises(BadFileError, match=r"device\.json"):
            edgedec.open(out, threads=1, context=64, store=Store(tmp_path / "empty"), memory=None)
    (out / DEVICE).write_text(whole)
    edgedec.open(out, threads=1, context=64, store=Store(tmp_path / "empty"), memory=None).close()


def test_the_folder_says_what_the_model_says_and_drafts_with_what_it_carries(
    target: Path, same: Path, tmp_path: Path
) -> None:
    add_drafters(target, tmp_path / "home")
    write(target, tmp_path / "home", tmp_path / "phone", model=same)
    shutil.rmtree(tmp_path / "home")
    store, replies = Store(tmp_path / "empty"), []
    for model in (target, tmp_path / "phone"):
        with edgedec.open(model, threads=1, context=256, store=store, memory=None) as opened:
            with opened.chat() as chat:
                replies.append("".join(chat.reply("Hello", max_tokens=24)))
            drafts = [one.name for one in opened.single.drafting.drafters]
    assert replies[0] == replies[1]
    assert {"head", same.name} <= set(drafts)
    assert installed_drafter(tmp_path / "phone", store) == tmp_path / "phone" / "models" / same.name


def test_the_maps_are_the_bridge_between_the_vocabularies(target: Path, other: Path, tmp_path: Path) -> None:
    write(target, tmp_path, tmp_path / "phone", model=other)
    models = [load_model(bundle, threads=1) for bundle in (target, other)]
    between = bridge(models[0], models[1], same=False)
    assert isinstance(between, TextBridge)
    to_target, to_draft = (
        np.fromfile(tmp_path / "phone" / "maps" / other.name / name, "<i4")
        for name in ("to_target.i32", "to_draft.i32")
    )
    ids = range(models[1].spec.vocab_size)
    np.testing.assert_array_equal(to_target, counterparts(between, ids))
    assert len(to_draft) == models[0].spec.vocab_size
    there = np.flatnonzero(to_draft >= 0)
    assert there.size > 100
    for token in there.tolist():
        piece = models[0].tokenizer.token_bytes(token)
        assert models[1].tokenizer.token_bytes(int(to_draft[token])) == piece


def test_one_vocabulary_needs_no_maps(target: Path, same: Path, tmp_path: Path) -> None:
    made = write(target, tmp_path, tmp_path / "phone", model=same)
    assert made.drafters == (CarriedDrafter("model", f"models/{same.name}"),)
    assert not (tmp_path / "phone" / "maps").exists()


def test_a_folder_can_be_made_of_a_folder(target: Path, same: Path, tmp_path: Path) -> None:
    add_drafters(target, tmp_path / "home")
    first = write(target, tmp_path / "home", tmp_path / "one", HEAD, model=same)
    again = write(
        tmp_path / "one", tmp_path / "empty", tmp_path / "two", model=tmp_path / "one/models" / same.name
    )
    assert again == first


def test_the_trimmed_head_of_a_small_model_goes_along(target: Path, same: Path, tmp_path: Path) -> None:
    add_drafters(same, tmp_path)
    made = write(target, tmp_path, tmp_path / "phone", model=same)
    inside = {name.split("/")[3] for name in made.files if "/drafters/" in name}
    assert inside == {TRIM}


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ((), {TRIM, TABLES, HEAD}),
        ((HEAD,), {HEAD}),
        (("off",), set()),
        (("auto",), {TRIM, TABLES, HEAD}),
        ((TRIM, HEAD), {TRIM, HEAD}),
    ],
)
def test_drafters_are_chosen_by_name(
    target: Path, tmp_path: Path, names: Sequence[str], chosen: set[str]
) -> None:
    add_drafters(target, tmp_path)
    for every in (names, [*names, "small"]):
        assert {one.kind for one in choose_drafters(every, target, tmp_path)} == chosen
        assert named_model(every) == ("small" if len(every) > len(names) else None)


def test_a_drafter_that_is_not_there_is_named(target: Path, same: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="has no drafter head"):
        choose_drafters([HEAD], target, tmp_path)
    add_drafters(same, tmp_path)
    foreign = tmp_path / "drafters" / Target.of(Manifest.load(same)).short_hash / HEAD
    with pytest.raises(BadFileError, match="belongs to"):
        choose_drafters([str(foreign)], target, tmp_path)
    with pytest.raises(UsageError, match="has no files"):
        named_model(["lookup"])
    with pytest.raises(UsageError, match="only one"):
        named_model(["a", "b"])
    add_drafters(target, tmp_path)
    with pytest.raises(UsageError, match="off leaves out"):
        choose_drafters(["off", HEAD], target, tmp_path)


def test_a_damaged_file_ends_the_export(target: Path, tmp_path: Path) -> None:
    shutil.copytree(target, tmp_path / "bundle")
    weights = bytearray((tmp_path / "bundle" / "weights.bin").read_bytes())
    weights[100] ^= 1
    (tmp_path / "bundle" / "weights.bin").write_bytes(weights)
    with pytest.raises(BadFileError, match=r"weights\.bin of the bundle fails its SHA-256"):
        write(tmp_path / "bundle", tmp_path, tmp_path / "phone", "off")
    assert not (tmp_path / "phone").exists()


def test_a_full_disk_leaves_nothing(target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*paths: object) -> None:
        raise OSError(errno.EXDEV, "another disk")

    monkeypatch.setattr(os, "link", refused)
    write(target, tmp_path, tmp_path / "copied", "off")
    DeviceFolder.load(tmp_path / "copied", verify=True)

    def full(self: DeviceFolder, directory: Path) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(DeviceFolder, "save", full)
    before = set(tmp_path.iterdir())
    with pytest.raises(StorageError, match="no space left on the disk"):
        write(target, tmp_path, tmp_path / "phone", "off")
    assert set(tmp_path.iterdir()) == before


def test_a_template_that_is_none_is_refused(target: Path, tmp_path: Path) -> None:
    for content, said in ((b"{% if %}", "line 1"), (b"\xff\xfe", "chat_template.jinja")):
        bundle = tmp_path / str(len(content))
        shutil.copytree(target, bundle)
        (bundle / "chat_template.jinja").write_bytes(content)
        facts = json.loads((bundle / "manifest.json").read_text())
        facts["files"]["chat_template.jinja"] = asdict(FileEntry.of(bundle / "chat_template.jinja"))
        (bundle / "manifest.json").write_text(sealed(facts))
        with pytest.raises(BadFileError, match=said):
            write(bundle, tmp_path, tmp_path / "phone", "off")


def test_models_that_a_device_cannot_run_are_refused(target: Path, tmp_path: Path) -> None:
    shutil.copytree(target, tmp_path / "bundle")
    path = tmp_path / "bundle" / "manifest.json"
    facts = {k: v for k, v in json.loads(path.read_text()).items() if k != "sha256"}
    path.write_text(json.dumps({**facts, "kind": "optimum"}))
    with pytest.raises(UnsupportedError, match="without EdgeDec's kernels"):
        write(tmp_path / "bundle", tmp_path, tmp_path / "phone", "off")


def test_what_it_is_made_of_is_never_replaced(target: Path, same: Path, tmp_path: Path) -> None:
    write(target, tmp_path, tmp_path / "phone", model=same)
    for bundle in (tmp_path / "phone", tmp_path / "phone" / "models" / same.name):
        with pytest.raises(UsageError, match="would be replaced"):
            write(bundle, tmp_path, tmp_path / "phone", "off")
    with pytest.raises(UsageError, match="does not draft for itself"):
        write(target, tmp_path, tmp_path / "self", model=target)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match="not empty and is no EdgeDec bundle"):
        write(target, tmp_path, tmp_path / "full", "off")
