"""Drafts of the target's own parts and of other models, with the target on a GPU: the CPU's tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import edgedec
from edgedec import RunConfig, SamplingParams
from edgedec.assemble.prepare import Bundles
from edgedec.assemble.runner import Runner
from edgedec.backends.gpu.adapter import CHOICE
from edgedec.backends.gpu.recovering import RecoveringModel
from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.drafter_manifest import HEAD, Target
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import UnsupportedError
from edgedec.drafters.trim import SAVED, ends_of, save_trim
from edgedec.export.draft_head.bundle import export_head
from edgedec.models import Store
from tests.fixtures.draft_heads import random_head
from tests.fixtures.nightly import diagonal
from tests.fixtures.replies import always
from tests.fixtures.tiny_models import tiny_bundle
from tests.gpu import adapters

TEXT = "one two one two one two one"
SAMPLED = SamplingParams(temperature=0.8, seed=3)
DRAFTS = ["exit-1", "exit-2", "head", "auto", "lookup,exit-2,head"]


@pytest.fixture(scope="module")
def home(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which the model has a trimmed head and a trained one."""
    folder = tmp_path_factory.mktemp("home")
    manifest = Manifest.load(bundle)
    save_trim(manifest, folder, np.union1d(np.arange(0, 200, 2), ends_of(manifest)), {SAVED: 0.6})
    head = random_head(manifest.spec.hidden_size, manifest.spec.vocab_size, ids=200)
    export_head(head, bundle, folder / "drafters" / Target.of(manifest).short_hash / HEAD)
    return folder


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, adapters.adapter().name)
    monkeypatch.setattr("edgedec.core_lib.drafters.DOUBTS", (100.0, 1e-9))  # random models are never sure


def drafted(model: edgedec.Model, sampling: SamplingParams) -> str:
    """A reply in which every draft is fed, and there are some."""
    assert isinstance(model.runner, Runner)
    engine = model.runner.engine
    with always(engine):
        text = model.complete(TEXT, sampling=sampling, max_tokens=24).read()
    assert engine.speculation
    assert engine.speculation.tally.drafted > 0
    return text


@pytest.mark.parametrize(("draft", "sampling"), diagonal(DRAFTS, [SamplingParams.greedy(), SAMPLED]))
def test_replies_are_those_of_the_cpu_without_drafts(
    draft: str, sampling: SamplingParams, bundle: Path, home: Path, adapter: None
) -> None:
    with edgedec.open(bundle, RunConfig(draft="off", context=128, threads=1)) as model:
        plain = model.complete(TEXT, sampling=sampling, max_tokens=24).read()
    config = RunConfig(device="gpu", draft=draft, context=128, threads=1)
    with edgedec.open(Bundles(bundle), config, store=Store(home)) as model:
        assert drafted(model, sampling) == plain


def test_a_small_model_drafts_on_the_cpu(bundle: Path, tmp_path: Path, adapter: None) -> None:
    small = tiny_bundle(tmp_path, seed=1)
    with edgedec.open(bundle, RunConfig(draft="off", context=128, threads=1)) as model:
        plain = model.complete(TEXT, sampling=SAMPLED, max_tokens=24).read()
    config = RunConfig(device="gpu", draft="small", context=128, threads=1)
    with edgedec.open(Bundles(bundle, {"small": small}), config, store=Store(tmp_path)) as model:
        assert drafted(model, SAMPLED) == plain
        (one,) = model.single.prepared.opened.values()
        assert isinstance(model.loaded.backend, RecoveringModel)
        assert isinstance(one.models[0].backend, OnnxModel)


def test_layers_on_two_devices_draft_without_the_models_own_parts(
    bundle: Path, home: Path, adapter: None
) -> None:
    config = RunConfig(device="gpu", gpu_layers=1, draft="auto", context=128, threads=1)
    with edgedec.open(Bundles(bundle), config, store=Store(home)) as model:
        assert model.complete(TEXT, max_tokens=4).read()
    with pytest.raises(UnsupportedError, match="they run on two devices"):
        edgedec.open(Bundles(bundle), RunConfig(device="gpu", gpu_layers=1, draft="exit-1", threads=1))
