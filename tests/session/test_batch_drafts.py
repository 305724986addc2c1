"""A draft model beside several conversations: the same tokens, drafts made together, memory as planned."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.prepare import Bundles, prepare
from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.backends.backend import Backend, PassRequest
from edgedec.backends.onnx.sequences import _keep as kept_in_pass
from edgedec.bundle.manifest import Manifest
from edgedec.core.rows import Keep
from edgedec.costs.cost_file import CostFile
from edgedec.drafters.shared_model import SharedModel
from edgedec.drafters.trim import SAVED, ends_of, save_trim
from edgedec.loaded_model import LoadedModel, load_model
from edgedec.sampling import DrawParams
from edgedec.session.conversations import Conversations
from edgedec.session.reply import Settings
from tests.fixtures.nightly import diagonal
from tests.fixtures.ready import chat_of
from tests.fixtures.replies import feed_all
from tests.fixtures.tiny_models import prepared_run, run_tiny, tiny_bundle
from tests.session.test_conversations import PARAMS, TEXTS

DRAFTS = {"the model itself": ("llama", 0), "one vocabulary": ("llama", 1), "two vocabularies": ("gemma3", 2)}
PLENTY = 1 << 40


@pytest.fixture(autouse=True)
def _bold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random models are never sure; they draft all the same."""
    monkeypatch.setattr("edgedec.core_lib.drafters.DOUBTS", (100.0, 0.0))


@pytest.fixture(scope="module")
def home(folder: Path) -> Path:
    """Nothing need be measured; tokens cost next to nothing."""
    loaded = run_tiny(tiny_bundle(folder)).loaded
    file = CostFile.of(loaded, "fp16", folder / "costs")
    file.write(file.measured({1: 1e-1, 16: 1.0001e-1, 128: 1.001e-1}))
    return folder


def batch_of(folder: Path, which: str, count: int, home: Path | None = None, **changes: object) -> Runner:
    """Conversations whose drafts come from a draft model alone."""
    settings = {"threads": 1, "draft": "other", "context": 200, "conversations": count, **changes}
    architecture, seed = DRAFTS[which]
    small = tiny_bundle(folder, architecture, seed=seed)
    config = RunConfig(**settings)  # type: ignore[arg-type]
    return Runner(prepared_run(tiny_bundle(folder), config, RunContext(home), other=small))


def replies(batch: Runner, settings: Settings, texts: Sequence[str] = TEXTS) -> list[list[int]]:
    with Conversations(batch, settings) as several:
        answers = list(several.answers(texts, raw=True))
    assert [answer.error for answer in answers] == [None] * len(texts)
    return [answer.reply.tokens for answer in answers if answer.reply]


def alone(folder: Path, settings: Settings, texts: Sequence[str] = TEXTS) -> list[list[int]]:
    chat = chat_of(run_tiny(tiny_bundle(folder), context=200), settings)
    found = []
    for text in texts:
        reply = chat.complete(text)
        reply.read()
        found.append(reply.tokens)
    return found


@pytest.mark.parametrize(("draft", "params"), diagonal(list(DRAFTS), list(PARAMS)))
def test_each_says_what_it_says_alone(folder: Path, home: Path, draft: str, params: str) -> None:
    settings = Settings(PARAMS[params], max_tokens=24)
    expected = alone(folder, settings)
    for count in (1, 2, 5):
        batch = batch_of(folder, draft, count, home)
        speculations = [engine.speculation for engine in batch.engines if engine.speculation]
        assert [one.drafters for one in speculations] == [("other",)] * count
        speculations = feed_all(batch.engines)
        assert replies(batch, settings) == expected
        drafted = sum(one.tally.drafted for one in speculations)
        assert drafted > (100 if draft == "the model itself" else 20)
        if draft == "the model itself":
            assert sum(one.tally.accepted for one in speculations) > 50


@pytest.mark.parametrize("draft", ["the model itself", "two vocabularies"])
def test_control_decides_and_changes_nothing(folder: Path, tmp_path: Path, draft: str) -> None:
    """Costs as they are, measured now."""
    settings = Settings(DrawParams(temperature=0.7, seed=2), max_tokens=60)
    batch = batch_of(folder, draft, 3, tmp_path, draft="auto,other")
    assert replies(batch, settings) == alone(folder, settings)


def test_those_who_draft_at_once_share_passes(
    folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    passed = SharedModel._passed

    def noting(self: SharedModel, requests: Sequence[PassRequest], seconds: float) -> None:
        sizes.append(len(requests))
        time.sleep(0.003)  # as long as a real one takes
        passed(self, requests, seconds)

    monkeypatch.setattr(SharedModel, "_passed", noting)
    batch = batch_of(folder, "the model itself", 4, home)
    assert len(feed_all(batch.engines)) == len(batch.engines)
    replies(batch, Settings(max_tokens=60), TEXTS[:4])
    assert sum(sizes) > 1.2 * len(sizes)
    marked = batch.mark()
    efforts = [one.speculation.tally.by_drafter["other"] for one in batch.engines if one.speculation]
    assert 0 < sum(one.passes for one in efforts) <= sum(sizes)  # some were read in pieces
    assert 0 < marked.draft_bytes < 0.9 * sum(sizes) * batch.model.backend.weight_bytes


def test_conversations_share_the_ids_of_a_trimmed_head(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass computes the kept ids, with those of the texts of all."""
    manifest = Manifest.load(tiny_bundle(folder, "llama", seed=1))
    chosen = sorted({*ends_of(manifest), *range(0, manifest.spec.vocab_size, 2)})
    save_trim(manifest, tmp_path, np.array(chosen), {SAVED: 0.5})
    passed: list[set[int] | None] = []

    def noted(group: Any) -> Keep | None:
        keep = kept_in_pass(group)
        passed.append(None if keep is None else set(keep.tolist()))
        return keep

    monkeypatch.setattr("edgedec.backends.onnx.sequences._keep", noted)
    monkeypatch.setattr("edgedec.drafters.trim.break_even", lambda step, trimmed: 1.0)
    settings = Settings(max_tokens=40)
    batch = batch_of(folder, "one vocabulary", 3, tmp_path)
    assert len(feed_all(batch.engines)) == len(batch.engines)
    assert replies(batch, settings) == alone(folder, settings)
    kept = [one for one in passed if one is not None]
    assert all(one.issuperset(chosen) for one in kept)
    assert max(map(len, kept)) > len(chosen) + 20
    assert all(len(one) < manifest.spec.vocab_size for one in kept)


def test_a_draft_model_of_a_batch_keeps_to_its_share(folder: Path, home: Path) -> None:
    batch = batch_of(folder, "the model itself", 3, home, memory=PLENTY)
    assert batch.budget is not None
    ledger, parts = batch.budget.ledger, batch.budget.plan.parts
    replies(batch, Settings(max_tokens=150), ["word " * 20, *TEXTS[:4]])
    most = ledger.most()
    assert 0.8 * parts["drafter"] < most["drafter"] <= parts["drafter"]
    assert most["slack"] <= parts["slack"]
    del batch
    gc.collect()
    assert ledger.by_name().keys() <= {"process", "weights", "scratch", "slack", "drafter"}


def test_a_draft_model_of_one_conversation_at_a_time_is_left_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two, one line; alone it drafts."""
    small, lines = tiny_bundle(folder, seed=1), list[str]()

    def load(bundle: Path, **how: object) -> LoadedModel:
        model = load_model(bundle, **how)  # type: ignore[arg-type]
        if bundle == small:
            backend = model.backend
            assert isinstance(backend, Backend)
            backend.caps = replace(backend.caps, sequences=1)
            monkeypatch.setattr(backend, "sequences", None)
        return model

    for count in (2, 1):
        config = RunConfig(threads=1, draft="other", context=200, conversations=count)
        bundles = Bundles(tiny_bundle(folder), {"other": small})
        batch = Runner(prepare(config, bundles, RunContext(notice=lines.append), load))
        assert [bool(engine.speculation) for engine in batch.engines] == [count == 1] * count
        batch.close()
    assert [line for line in lines if "other" in line] == [
        f"Tiny llama runs without other: other runs in {batch.model.isa}, one conversation at a time"
    ]
