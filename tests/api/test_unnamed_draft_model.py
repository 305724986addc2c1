"""An installed draft model that is known to suit a model drafts for it without being named."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import edgedec
from edgedec.api import context_of
from edgedec.assemble import budget as budgets
from edgedec.assemble.config import RunConfig
from edgedec.assemble.prepare import Bundles, prepare
from edgedec.bundle.device_place import ON_CPU, DevicePlace
from edgedec.bundle.exits import LayerOutputs
from edgedec.bundle.manifest import Manifest
from edgedec.cli.app import app
from edgedec.cli.services import Services
from edgedec.core.errors import EdgeDecError
from edgedec.disk.listed_files import sealed
from edgedec.loaded_model import LoadedModel, load_model
from edgedec.models import Store, pairs
from edgedec.models.catalogue import CATALOGUE, Entry
from edgedec.system import memory as system_memory
from tests.fixtures.tiny_models import tiny_bundle

LARGE, SMALL, ADAPTED = "large-1b", "small-10m", "small-10m-for-large-1b"
EVERY = ["lookup", "recycling"]


class Entries(dict[str, Entry]):
    """A catalogue that is no file."""

    def may_have_drafter(self, name: str) -> bool:
        return name in self


def entry_of(bundle: Path, nbytes: int, drafter: str | None = None) -> Entry:
    manifest = Manifest.load(bundle)
    like = CATALOGUE["qwen2.5-coder-1.5b"]
    recipe = replace(like.recipe, name=bundle.name, bytes=nbytes, sha256=str(manifest.source["sha256"]))
    return replace(like, recipe=recipe, drafter=drafter)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("made")
    return {name: tiny_bundle(folder, seed=seed) for seed, name in enumerate((LARGE, SMALL))}


@pytest.fixture
def store(made: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Both models are installed, and the catalogue knows them."""
    models = tmp_path / "models"
    for name, bundle in made.items():
        shutil.copytree(bundle, models / name)
        rename(models / name, name)
    known(monkeypatch, models)
    return Store(tmp_path)


def rename(bundle: Path, name: str) -> None:
    path = bundle / "manifest.json"
    path.write_text(sealed(json.loads(path.read_text()) | {"name": name}))


def known(monkeypatch: pytest.MonkeyPatch, models: Path, small_bytes: int = 100) -> None:
    entries = {
        LARGE: entry_of(models / LARGE, 600, drafter=SMALL),
        SMALL: entry_of(models / SMALL, small_bytes),
    }
    monkeypatch.setattr(pairs, "CATALOGUE", Entries(entries))


@pytest.fixture(autouse=True)
def _plenty_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_memory, "available_bytes", lambda: 1 << 40)


def drafters(
    store: Store, lines: list[str] | None = None, drafts: Mapping[str, Path] | None = None, **settings: object
) -> list[str]:
    """The names of a run's drafters; ``lines`` gets its notices."""
    config = RunConfig(**{"threads": 1, **settings})  # type: ignore[arg-type]
    context = context_of(store, (lines if lines is not None else []).append)
    run = prepare(config, Bundles(store.path(LARGE), drafts or {}), context)
    return [one.name for one in run.drafting.drafters]


def test_auto_has_it(store: Store) -> None:
    assert drafters(store) == [*EVERY, SMALL]
    plain = RunConfig(threads=1, draft="off")
    with edgedec.open(Bundles(store.path(LARGE)), RunConfig(threads=1), store=store) as model:
        assert model.single.engine.speculation
        assert SMALL in model.single.engine.speculation.drafters
        text = model.complete("abc", max_tokens=24).read()
    with edgedec.open(Bundles(store.path(LARGE)), plain, store=store) as model:
        assert model.complete("abc", max_tokens=24).read() == text


@pytest.mark.parametrize("draft", ["off", "lookup", "recycling", "exit"])
def test_no_other_choice_of_drafters_has_it(store: Store, draft: str) -> None:
    assert SMALL not in drafters(store, draft=draft)


def test_it_is_not_added_beside_a_draft_model_that_is_named(store: Store) -> None:
    for name in (SMALL, "another"):
        lines: list[str] = []
        assert drafters(store, lines, {name: store.path(SMALL)}, draft=f"auto,{name}") == [*EVERY, name]
        assert lines == []


def test_within_a_budget_it_drafts_where_it_fits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget used to leave it out without a word."""
    monkeypatch.setattr(budgets, "rss_bytes", lambda: 50_000_000)
    monkeypatch.setattr(budgets, "mapped_rss_bytes", lambda name: 0)
    lines: list[str] = []
    assert drafters(store, lines, memory="2GB") == [*EVERY, SMALL]
    assert lines == []
    assert drafters(store, lines, memory="62MB") == EVERY
    (line,) = lines
    found = re.fullmatch(
        rf"memory budget 62\.0 MB, drafter: no {SMALL}, which would need (\d+MB) in all", line
    )
    assert found
    lines.clear()
    assert drafters(store, lines, memory=found.group(1)) == [*EVERY, SMALL]
    assert lines == []
    less = f"{int(found.group(1)[:-2]) - 1}MB"  # the whole context fits, and a shorter one beside the drafter
    assert drafters(store, lines, memory=less) == EVERY
    assert "context" not in "".join(lines)


def test_what_does_not_fit_is_not_even_loaded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "rss_bytes", lambda: 50_000_000)
    monkeypatch.setattr(budgets, "mapped_rss_bytes", lambda name: 0)
    loaded: list[str] = []

    def load(
        bundle: Path,
        /,
        *,
        threads: int | None,
        drafting: LayerOutputs,
        place: DevicePlace = ON_CPU,
    ) -> LoadedModel:
        loaded.append(bundle.name)
        return load_model(bundle, threads=threads, drafting=drafting, place=place)

    def run(memory: str, draft: str = "auto") -> list[str]:
        loaded.clear()
        config = RunConfig(threads=1, memory=memory, draft=draft)
        bundles = Bundles(store.path(LARGE), {SMALL: store.path(SMALL)})
        prepare(config, bundles, context_of(store), load)
        return loaded

    assert run("2GB") == [LARGE, SMALL]
    assert run("62MB") == [LARGE]
    assert run("58MB", draft=f"auto,{SMALL}") == [LARGE]


@pytest.mark.parametrize("conversations", [1, 3])
def test_it_drafts_for_a_batch(store: Store, conversations: int) -> None:
    lines: list[str] = []
    assert drafters(store, lines, conversations=conversations) == [*EVERY, SMALL]
    assert lines == []


def test_a_batch_within_a_budget_has_it_where_a_cache_for_each_fits(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets, "rss_bytes", lambda: 50_000_000)
    monkeypatch.setattr(budgets, "mapped_rss_bytes", lambda name: 0)
    needed = []
    for conversations, memory in ((2, "66MB"), (8, "80MB")):
        lines: list[str] = []
        assert drafters(store, lines, memory=memory, conversations=conversations) == EVERY
        found = re.search(rf"drafter: no {SMALL}, which would need (\d+MB) in all", "".join(lines))
        assert found
        needed.append(found.group(1))
        assert drafters(store, memory=needed[-1], conversations=conversations) == [*EVERY, SMALL]
    assert int(needed[0][:-2]) < int(needed[1][:-2])


@pytest.mark.parametrize("free", [None, 0, 1_000_000])
def test_it_needs_ample_memory(store: Store, free: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_memory, "available_bytes", lambda: free)
    lines: list[str] = []
    assert drafters(store, lines) == EVERY
    (line,) = lines
    assert line.startswith(f"{LARGE} runs without {SMALL}: ")
    assert ("not known" if free is None else "memory") in line


def test_a_draft_model_that_is_large_beside_its_target_is_left_out(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(monkeypatch, store.home / "models", small_bytes=101)
    assert drafters(store) == EVERY


def test_another_model_of_that_name_does_not_draft(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (LARGE, SMALL):
        entry = pairs.CATALOGUE[name]
        other = replace(entry, recipe=replace(entry.recipe, sha256="0" * 64))
        with monkeypatch.context() as patch:
            patch.setattr(pairs, "CATALOGUE", Entries(pairs.CATALOGUE | {name: other}))
            assert drafters(store) == EVERY


def test_one_that_was_adapted_to_the_model_comes_before_what_it_is_made_of(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = Entries(pairs.CATALOGUE)
    recipe = replace(entries[SMALL].recipe, name=ADAPTED, adapter="1" * 64)
    entries[ADAPTED] = replace(entries[SMALL], recipe=recipe, base=SMALL)
    entries[LARGE] = replace(entries[LARGE], drafter=ADAPTED)
    monkeypatch.setattr(pairs, "CATALOGUE", Entries(entries))
    assert drafters(store) == [*EVERY, SMALL]
    assert pairs.missing_drafter(store.path(LARGE), store) == entries[ADAPTED]
    adapted = store.home / "models" / ADAPTED
    shutil.copytree(store.path(SMALL), adapted)
    rename(adapted, ADAPTED)
    assert drafters(store) == [*EVERY, SMALL]  # another model of that name
    assert pairs.missing_drafter(store.path(LARGE), store) == entries[ADAPTED]
    manifest = json.loads((adapted / "manifest.json").read_text())
    manifest["source"]["adapter"] = "1" * 64
    (adapted / "manifest.json").write_text(sealed(manifest))
    assert drafters(store) == [*EVERY, ADAPTED]
    assert pairs.missing_drafter(store.path(LARGE), store) is None


def test_a_damaged_one_costs_a_line_and_the_model_runs(store: Store) -> None:
    (store.path(SMALL) / "tokenizer.json").write_text("{")
    lines: list[str] = []
    with edgedec.open(
        Bundles(store.path(LARGE)), RunConfig(threads=1), store=store, notice=lines.append
    ) as model:
        assert model.single.engine.speculation
        assert SMALL not in model.single.engine.speculation.drafters
    (line,) = (line for line in lines if SMALL in line)
    assert line.startswith(f"{LARGE} runs without {SMALL}, which drafts for it: ")


@pytest.mark.parametrize("draft", [f"auto,{SMALL}", SMALL])
def test_a_damaged_one_that_is_named_costs_a_line_too(store: Store, draft: str) -> None:
    (store.path(SMALL) / "model.onnx").write_bytes(b"nothing")
    lines: list[str] = []
    config = RunConfig(threads=1, draft=draft)
    bundles = Bundles(store.path(LARGE), {SMALL: store.path(SMALL)})
    with edgedec.open(bundles, config, store=store, notice=lines.append) as model:
        drafters = model.single.engine.speculation.drafters if model.single.engine.speculation else ()
        assert (SMALL in drafters, "lookup" in drafters) == (False, draft != SMALL)
    (line,) = (line for line in lines if SMALL in line)
    assert line.startswith(f"{LARGE} runs without {SMALL}, which drafts for it: model.onnx")


def test_one_whose_weights_changed_never_drafts(store: Store) -> None:
    path = store.path(SMALL) / "weights.bin"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    lines: list[str] = []
    with edgedec.open(
        Bundles(store.path(LARGE)), RunConfig(threads=1), store=store, notice=lines.append
    ) as model:
        assert model.single.engine.speculation
        assert SMALL not in model.single.engine.speculation.drafters
        assert model.complete("abc", max_tokens=4).read()
    (line,) = (line for line in lines if SMALL in line)
    assert line.startswith(f"{LARGE} runs without {SMALL}, which drafts for it: weights.bin of the bundle")


def test_a_damaged_target_is_an_error_that_names_it_alone(store: Store) -> None:
    (store.path(LARGE) / "tokenizer.json").write_text("{")
    lines: list[str] = []
    with pytest.raises(EdgeDecError):
        edgedec.open(Bundles(store.path(LARGE)), RunConfig(threads=1), store=store, notice=lines.append)
    assert not any(SMALL in line for line in lines)


def test_pull_brings_the_draft_model_that_is_not_installed(store: Store) -> None:
    """It used to name it in a note, and whoever pulled the model went without its drafts."""
    kept = store.home / "kept"

    class Source(Store):
        def pull(self, reference: str, **options: Any) -> Path:
            if reference == SMALL and kept.is_dir():
                return shutil.copytree(kept, store.home / "models" / SMALL)
            return super().pull(reference, **options)

    def pulled(*options: str) -> str:
        services = Services(store=lambda: Source(store.home))
        result = CliRunner().invoke(app, ["pull", LARGE, *options], obj=services)
        assert result.exit_code == 0, result.output
        return result.stderr

    assert pulled() == ""
    shutil.move(store.path(SMALL), store.home / "gone")
    assert pulled("--no-drafter") == ""
    came = f"{LARGE} comes with a drafter: {SMALL}, 100 B; --no-drafter leaves it out\n"
    said = pulled()  # it is in no catalogue that has a source
    assert said.startswith(f"{came}note: {LARGE} runs without {SMALL}: ")
    assert said.endswith(f"; `edgedec pull {SMALL}` tries again\n")
    shutil.move(store.home / "gone", kept)
    assert pulled() == came
    assert drafters(store) == [*EVERY, SMALL]
    assert pulled() == ""


def test_qwen_coder_is_drafted_for_by_smollm2() -> None:
    names = [one.name for one in pairs.known_drafters("qwen2.5-coder-1.5b")]
    assert names == ["smollm2-135m-for-qwen2.5-coder-1.5b", "smollm2-135m"]
    for name in ("smollm2-135m", "qwen2.5-1.5b", "nobody"):  # none, none that is small enough, unknown
        assert pairs.known_drafters(name) == ()
