"""An installed draft model that is known to suit a model drafts for it without being named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import edgedec
from edgedec.api import Bundles, with_unnamed
from edgedec.assemble.config import RunConfig
from edgedec.cli.app import app
from edgedec.cli.services import Services
from edgedec.core.errors import EdgeDecError
from edgedec.core.listed_files import sealed
from edgedec.core.manifest import Manifest
from edgedec.models import Store, pairs
from edgedec.models.catalogue import CATALOGUE, Entry
from tests.fixtures.tiny_models import tiny_bundle

LARGE, SMALL = "large-1b", "small-10m"


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
    monkeypatch.setattr(pairs, "CATALOGUE", entries)


def plenty() -> int:
    return 1 << 40


def completed(
    store: Store, config: RunConfig, drafts: Mapping[str, Path] | None = None
) -> tuple[str, set[str]]:
    bundles = Bundles(store.path(LARGE), drafts or {})
    config, bundles = with_unnamed(config, bundles, store, free=plenty)
    return config.draft, set(bundles.drafts)


def test_auto_has_it(store: Store) -> None:
    assert completed(store, RunConfig()) == (f"auto,{SMALL}", {SMALL})
    plain = RunConfig(threads=1, draft="off")
    with edgedec.open(Bundles(store.path(LARGE)), RunConfig(threads=1), store=store) as model:
        assert model.single.engine.speculation
        assert SMALL in model.single.engine.speculation.drafters
        text = model.complete("abc", max_tokens=24).read()
    with edgedec.open(Bundles(store.path(LARGE)), plain, store=store) as model:
        assert model.complete("abc", max_tokens=24).read() == text


@pytest.mark.parametrize("draft", ["off", "lookup", "recycling", "exit", "head"])
def test_no_other_choice_of_drafters_has_it(store: Store, draft: str) -> None:
    assert completed(store, RunConfig(draft=draft)) == (draft, set())


def test_it_is_not_added_beside_a_draft_model_that_is_named(store: Store) -> None:
    for name in (SMALL, "another"):
        named = {name: store.path(SMALL)}
        assert completed(store, RunConfig(draft=f"auto,{name}"), named) == (f"auto,{name}", {name})


@pytest.mark.parametrize("config", [RunConfig(memory="2GB"), RunConfig(conversations=2)])
def test_a_memory_budget_and_a_batch_are_without_it(store: Store, config: RunConfig) -> None:
    assert completed(store, config) == ("auto", set())


@pytest.mark.parametrize("free", [None, 0, 1_000_000])
def test_it_needs_ample_memory(store: Store, free: int | None) -> None:
    bundles = Bundles(store.path(LARGE))
    config, found = with_unnamed(RunConfig(), bundles, store, free=lambda: free)
    assert (config.draft, found) == ("auto", bundles)


def test_a_draft_model_that_is_large_beside_its_target_is_left_out(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(monkeypatch, store.home / "models", small_bytes=101)
    assert completed(store, RunConfig()) == ("auto", set())


def test_another_model_of_that_name_does_not_draft(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (LARGE, SMALL):
        entry = pairs.CATALOGUE[name]
        other = replace(entry, recipe=replace(entry.recipe, sha256="0" * 64))
        with monkeypatch.context() as patch:
            patch.setattr(pairs, "CATALOGUE", {**pairs.CATALOGUE, name: other})
            assert completed(store, RunConfig()) == ("auto", set())


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


def test_pull_names_the_draft_model_that_is_not_installed(store: Store) -> None:
    def pulled() -> str:
        result = CliRunner().invoke(app, ["pull", LARGE], obj=Services(store=lambda: store))
        assert result.exit_code == 0, result.output
        return result.stderr

    assert pulled() == ""
    store.remove(SMALL)
    assert pulled() == (
        f"note: {LARGE} replies faster with a draft model beside it: `edgedec pull {SMALL}` (100 B)\n"
    )


def test_qwen_coder_is_drafted_for_by_smollm2() -> None:
    drafter = pairs.known_drafter("qwen2.5-coder-1.5b")
    assert drafter
    assert drafter.name == "smollm2-135m"
    for name in ("smollm2-135m", "qwen2.5-1.5b", "nobody"):  # none, none that is small enough, unknown
        assert pairs.known_drafter(name) is None
