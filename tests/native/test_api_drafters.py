"""The native engine with drafters that have weights: found, planned for, and never changing a token."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec import native
from edgedec.api import Model
from edgedec.assemble.config import RunConfig
from edgedec.bundle.device_folder import DEVICE
from edgedec.bundle.exits import exits_of
from edgedec.bundle.manifest import DRAFTING, TOKENIZER_TABLE, Manifest
from edgedec.core.errors import BadFileError, EdgeDecError, UnsupportedError, UsageError
from edgedec.drafters.trim import SAVED, ends_of, save_trim
from edgedec.export import export_gguf
from edgedec.export.device import DeviceOrder, choose_drafters, write_device_folder
from edgedec.sampling import DrawParams
from tests.bundle.hostile import edit
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import prepared_run, tiny_bundle

TEXT = "hello world hello world hello"
SAMPLED = DrawParams(temperature=0.9, top_k=20, seed=6)
SETTINGS: dict[str, Any] = {"threads": 1, "context": 256}
OURS = ("drafter", "hidden", "scratch", "kv_cache", "tables", "rows")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def target(place: Path) -> Path:
    return tiny_bundle(place)


@pytest.fixture(scope="module")
def small(place: Path) -> Path:
    """Other weights with the target's vocabulary."""
    return tiny_bundle(place, seed=4)


@pytest.fixture(scope="module")
def phone(target: Path, small: Path, place: Path) -> Path:
    """A device's folder with a small model, and trimmed heads of both."""
    home = place / "home"
    for bundle in (target, small):
        manifest = Manifest.load(bundle)
        save_trim(manifest, home, np.array(sorted({*ends_of(manifest), *range(40, 120)})), {SAVED: 0.7})
    chosen = choose_drafters((), target, home)
    write_device_folder(DeviceOrder("android", target, chosen, small, home), place / "phone")
    return place / "phone"


def tokens(folder: Path, **settings: Any) -> tuple[list[list[int]], dict[str, Any], list[str]]:
    """Two replies, greedy and sampled; the figures of drafts, and the lines that were told."""
    told: list[str] = []
    with native.open(folder, notice=told.append, **{**SETTINGS, **settings}) as opened:
        found = [
            opened.complete(TEXT, sampling=params, max_tokens=40).tokens for params in (DrawParams(), SAMPLED)
        ]
        return found, opened.stats().get("drafted_by", {}), told


def plain(bundle: Path) -> list[list[int]]:
    with Model(prepared_run(bundle, RunConfig(draft="off", **SETTINGS))) as opened:
        found = []
        for params in (DrawParams(), SAMPLED):
            reply = opened.complete(TEXT, sampling=params, max_tokens=40)
            reply.read()
            found.append(list(reply.tokens))
        return found


def test_no_drafter_changes_a_token(target: Path, small: Path, phone: Path) -> None:
    expected = plain(target)
    for folder, draft, names in (
        (target, str(small), [str(small)]),
        (target, "lookup," + str(small), ["lookup", str(small)]),
        (target, "exit-1", ["exit-1"]),
        (target, "exit-2,lookup", ["lookup", "exit-2"]),
        (phone, "auto", ["lookup", "recycling", "exit-2", small.name]),
        (phone, small.name, [small.name]),
        (phone, "exit-2", ["exit-2"]),
    ):
        found, drafted, told = tokens(folder, draft=draft)
        assert found == expected, draft
        assert list(drafted) == names
        assert not [line for line in told if "drafter" in line]
        assert all(drafted[name]["queries"] for name in names)
    assert drafted["exit-2"]["proposed"]


@pytest.mark.parametrize("draft", ["small", "exit-2", "lookup,exit-1,small"])
def test_the_plan_is_that_of_python(target: Path, small: Path, draft: str) -> None:
    config = RunConfig(draft=draft, **SETTINGS)
    theirs = prepared_run(target, config, small=small).plan().plan.parts
    ours = native.plan(target, draft=draft.replace("small", str(small)), **SETTINGS)["parts"]
    if "drafter" in ours:  # the same tokenizer is not opened twice
        ours["drafter"] += (small / TOKENIZER_TABLE).stat().st_size
    assert {name: ours.get(name) for name in OURS} == {name: theirs.get(name) for name in OURS}


def test_a_model_that_does_not_fit_is_given_up_in_a_line(target: Path, small: Path, phone: Path) -> None:
    expected = plain(target)
    whole = native.plan(phone, draft="off", **SETTINGS)["planned_bytes"]
    found, drafted, told = tokens(phone, draft="auto", memory=whole + 3_000_000)
    assert found == expected
    assert small.name not in drafted
    assert [line for line in told if f"drafter: no {small.name}, which would need" in line]
    whole = native.plan(target, draft="off", **SETTINGS)["planned_bytes"]  # the process may have grown
    found, drafted, told = tokens(target, draft=str(small), memory=whole + 200_000)
    assert found == expected
    assert not drafted
    assert [line for line in told if "memory budget" in line]


def test_the_ledger_counts_the_kept_ids_of_a_trimmed_head(target: Path, small: Path, tmp_path: Path) -> None:
    def leased(kept: int, draft: str) -> int:
        for bundle in (target, small):
            manifest = Manifest.load(bundle)
            ids = np.array(sorted({*ends_of(manifest), *range(40, 40 + kept)}))
            save_trim(manifest, tmp_path / "home", ids, {SAVED: 0.5})
        chosen = choose_drafters((), target, tmp_path / "home")
        folder = tmp_path / f"{kept}-{draft}"
        write_device_folder(DeviceOrder("android", target, chosen, small, tmp_path / "home"), folder)
        with native.open(folder, draft=draft, **SETTINGS) as opened:
            # Before any pass: what they hold depends on their lengths, and those on how quick the machine is.
            held: int = opened.stats()["memory"]["most_leased"]["slack"]
            return held

    # The ids themselves and those in use; for a small model also of what it was opened with.
    assert leased(180, "exit-2") - leased(80, "exit-2") == 2 * 8 * 100
    assert leased(180, small.name) - leased(80, small.name) == 4 * 8 * 100


def test_another_vocabulary_or_a_damaged_model_costs_a_line(target: Path, place: Path, small: Path) -> None:
    expected = plain(target)
    damaged = place / "damaged"
    shutil.copytree(small, damaged)
    (damaged / "weights.bin").write_bytes(b"short")
    for model in (tiny_bundle(place, "gemma3", seed=3), damaged):
        found, drafted, told = tokens(target, draft=f"lookup,{model}")
        assert found == expected
        assert list(drafted) == ["lookup"]
        assert len([line for line in told if f"runs without {model}, which drafts for it" in line]) == 1


def test_a_damaged_trimmed_head_costs_a_line(phone: Path, target: Path, tmp_path: Path) -> None:
    copy = tmp_path / "phone"
    shutil.copytree(phone, copy)
    ids = copy / "drafters" / "trim" / "keep.i32"
    ids.write_bytes(ids.read_bytes()[::-1])
    found, drafted, told = tokens(copy, draft="exit-2")
    assert found == plain(target)
    assert list(drafted) == ["exit-2"]
    assert [line for line in told if "drafts with its full head" in line]


@pytest.mark.parametrize(
    ("draft", "error", "says"),
    [
        ("sdx", UsageError, "there is no drafter 'sdx'"),
        ("", UsageError, "there is no drafter ''"),
        ("lookup,off", UsageError, "there is no drafter 'off'"),
        ("exit-9", UsageError, "has no drafter exit-9"),
        ("exit-0", UsageError, "there is no drafter 'exit-0'"),
        ("skip-1-2", UsageError, "has no drafter skip-1-2"),
        ("skip-2-1", UsageError, "has no drafter skip-2-1"),
        ("skip-1", UsageError, "there is no drafter 'skip-1'"),
        (",".join(f"exit-{n}" for n in range(1, 40)), UsageError, "too many drafters"),
    ],
)
def test_impossible_names_are_refused(target: Path, draft: str, error: type[EdgeDecError], says: str) -> None:
    with pytest.raises(error, match=says):
        native.plan(target, draft=draft, **SETTINGS)


def test_a_span_of_layers_can_be_left_out_as_in_python(place: Path) -> None:
    deep, shape = place / "deep", TinyShape(layers=6, context=256)
    export_gguf(write_tiny(place / "deep.gguf", shape=shape), deep)
    inner = exits_of(6)[:-1]
    for name in (f"skip-{inner[0]}-{inner[-1]}", f"skip-{inner[1]}-{inner[2]}"):
        found, drafted, told = tokens(deep, draft=name)
        assert found == plain(deep)
        assert list(drafted) == [name]
        assert drafted[name]["queries"] > 0
        assert not [line for line in told if "drafter" in line]
    hints = []
    for refused in (
        lambda: native.plan(deep, draft="skip-5-9", **SETTINGS),
        lambda: prepared_run(deep, RunConfig(draft="skip-5-9", **SETTINGS)),
    ):
        with pytest.raises(UsageError, match="has no drafter skip-5-9") as caught:
            refused()
        hints.append(caught.value.hint)
    assert hints[0] == hints[1]


def test_a_bundle_without_exits_says_so(target: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(target, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    assert DRAFTING in manifest["files"]
    edit(copy / "manifest.json", ("files",), {k: v for k, v in manifest["files"].items() if k != DRAFTING})
    with pytest.raises(UnsupportedError, match="its bundle has no early exits"):
        native.plan(copy, draft="exit-1", **SETTINGS)


def test_a_hostile_table_of_contents_is_refused(phone: Path, tmp_path: Path) -> None:
    copy = tmp_path / "phone"
    shutil.copytree(phone, copy)
    stated = json.loads((copy / DEVICE).read_text())["drafters"]
    for path in ("../elsewhere", "models/../..", "models/..", "/models/x", "models/a/b", ""):
        wrong = [{**one, "path": path} if one["kind"] == "model" else one for one in stated]
        edit(copy / DEVICE, ("drafters",), wrong)
        with pytest.raises(BadFileError, match=r"device\.json"):
            native.plan(copy, **SETTINGS)
    (copy / DEVICE).write_text("{}")
    with pytest.raises(BadFileError):
        native.plan(copy, **SETTINGS)
