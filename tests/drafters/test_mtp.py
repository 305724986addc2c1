"""MTP layers in the bundles of real tiny models: found, opened, planned for, and exact."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.core.drafter_manifest import DRAFTER, MTP
from edgedec.core.errors import NotFoundError, UsageError
from edgedec.core.manifest import WEIGHTS, Manifest
from edgedec.core.mtp_facts import GRAPH
from edgedec.draft.mtp import MtpDrafter
from edgedec.drafters import trim
from edgedec.drafters.trim import SAVED, ends_of, save_trim
from edgedec.sampling import DrawParams
from tests.drafters.test_heads import GREEDY, PENALISED, SAMPLED, always, damage, plenty, reply
from tests.fixtures.mtp_layers import add_mtp, mtp_sizes, random_mtp
from tests.fixtures.tiny_models import prepared_run, tiny_bundle

PROMPT = [5, 6, 7, 8, 9, 10, 11]


class Place:
    """A bundle that carries a random MTP layer, and a home."""

    def __init__(self, folder: Path, architecture: str = "llama") -> None:
        self.bundle, self.home = tiny_bundle(folder, architecture), folder / "home"
        self.manifest = Manifest.load(self.bundle)
        hyper = mtp_sizes(self.manifest.spec.hidden_size)
        self.folder = add_mtp(self.bundle, hyper, random_mtp(hyper))
        self.said: list[str] = []

    def runner(self, draft: str = MTP, **settings: object) -> Runner:
        config = RunConfig(**{"draft": draft, "threads": 1, "context": 256, **settings})  # type: ignore[arg-type]
        return Runner(prepared_run(self.bundle, config, RunContext(self.home, self.said.append)))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("mtp"))


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gemma3"])
def test_replies_are_those_without_drafts(tmp_path: Path, architecture: str) -> None:
    place = Place(tmp_path, architecture)
    plain, drafted = place.runner("off").engine, place.runner().engine
    assert drafted.speculation
    assert drafted.speculation.drafters == (MTP,)
    with always(drafted):
        for params in (GREEDY, SAMPLED, PENALISED):
            prompt, said = list(PROMPT), reply(plain, PROMPT, params)
            assert reply(drafted, prompt, params) == said
            longer = [*PROMPT, *said[:20], 3, 4, 5]  # a turn that keeps some and changes the rest
            assert reply(drafted, longer, params) == reply(plain, longer, params)
    assert drafted.speculation.tally.drafted > 100
    assert drafted.speculation.drafters == (MTP,)
    assert drafted.speculation.tally.by_drafter[MTP].bytes_read > 0


def test_random_conversations_that_rewind_are_those_without_drafts(place: Place) -> None:
    plain, drafted = place.runner("off").engine, place.runner("mtp,lookup,exit").engine
    draw = random.Random(1)
    text = list(PROMPT)
    with always(drafted):
        for turn in range(25):
            text = [*text[: draw.randrange(1, len(text) + 1)], *(draw.randrange(200) for _ in range(3))][:180]
            params = DrawParams(temperature=draw.choice([0.0, 0.9]), seed=turn)
            said = reply(plain, text, params, 12)
            assert reply(drafted, text, params, 12) == said
            text += said
    assert drafted.speculation
    assert MTP in drafted.speculation.drafters


def test_it_drafts_without_a_name_where_the_bundle_carries_one(place: Place) -> None:
    runner = place.runner("auto")
    assert MTP in [spec.name for spec in runner.drafting.drafters]
    with pytest.raises(UsageError, match="mtp cannot draft for a batch"):
        place.runner(conversations=2)
    batch = place.runner("auto", conversations=2)
    assert MTP not in [spec.name for spec in batch.drafting.drafters]


def test_its_cache_keeps_step_with_the_targets(place: Place) -> None:
    runner = place.runner(context=400)
    assert runner.engine.speculation
    (drafter,) = runner.engine.speculation._drafters
    assert isinstance(drafter, MtpDrafter)
    with always(runner.engine):
        reply(runner.engine, [index % 200 for index in range(350)], GREEDY, 30)
    assert len(drafter._cached) > 350
    assert drafter._cached == list(range(len(drafter._cached)))


def test_a_cache_that_was_restored_goes_on_with_it(place: Place) -> None:
    text = [*PROMPT, *reply(place.runner("off").engine, PROMPT, GREEDY, 20)]
    plain, runner = place.runner("off").engine, place.runner()
    runner.forward.extend(text)
    runner.engine.adopt(text)
    with always(runner.engine):
        assert reply(runner.engine, [*text, 9, 8], GREEDY) == reply(plain, [*text, 9, 8], GREEDY)
    assert runner.engine.speculation
    assert runner.engine.speculation.tally.drafted


def test_where_tokens_leave_the_cache_replies_are_the_same(place: Place) -> None:
    settings = {"context": 64, "when_full": "slide"}
    plain, runner = place.runner("off", **settings).engine, place.runner(**settings)
    with always(runner.engine):
        assert reply(runner.engine, PROMPT, SAMPLED, 150) == reply(plain, PROMPT, SAMPLED, 150)
    assert runner.engine.speculation
    assert runner.engine.speculation.drafters == (MTP,)


def test_its_memory_is_planned_and_leased(place: Place) -> None:
    runner = place.runner(memory=plenty)
    assert runner.budget
    with always(runner.engine):
        reply(runner.engine, PROMPT * 20, GREEDY)
    share, most = runner.budget.plan.parts[MTP], runner.ledger.most()[MTP]
    assert 0 < most <= share <= 1.1 * most
    assert runner.ledger.most()["hidden"] <= runner.budget.plan.parts["hidden"]


def test_a_trimmed_head_of_the_target_is_its_own(tmp_path: Path) -> None:
    place = Place(tmp_path)
    kept = np.array(sorted({*ends_of(place.manifest), *range(100)}), dtype=np.int64)
    save_trim(place.manifest, place.home, kept, {SAVED: 0.3})
    plain, runner = place.runner("off").engine, place.runner()
    assert runner.engine.speculation
    (drafter,) = runner.engine.speculation._drafters
    assert isinstance(drafter, MtpDrafter)
    with always(runner.engine):
        drafter.begin(PROMPT, 0)
        assert reply(runner.engine, PROMPT, SAMPLED) == reply(plain, PROMPT, SAMPLED)
    assert drafter._layer.keep is None or drafter._layer.keep.size == kept.size
    assert drafter.nbytes() >= kept.nbytes


def test_the_head_of_a_large_vocabulary_is_trimmed_to_its_first_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    monkeypatch.setattr(trim, "FIRST_IDS", 100)
    plain, runner = place.runner("off").engine, place.runner()
    assert runner.engine.speculation
    (drafter,) = runner.engine.speculation._drafters
    assert isinstance(drafter, MtpDrafter)
    drafter.begin(PROMPT, 0)
    drafter.propose(1)
    assert drafter._layer.keep is not None
    assert drafter._layer.keep.tolist() == sorted({*range(100), *ends_of(place.manifest)})
    with always(runner.engine):
        assert reply(runner.engine, PROMPT, SAMPLED) == reply(plain, PROMPT, SAMPLED)


@pytest.mark.parametrize("name", [GRAPH, WEIGHTS, DRAFTER])
def test_a_damaged_layer_is_refused_and_the_model_runs_without_it(tmp_path: Path, name: str) -> None:
    place = Place(tmp_path)
    if name == DRAFTER:
        text = (place.folder / DRAFTER).read_text().replace('"hidden": 64', '"hidden": 32')
        (place.folder / DRAFTER).write_text(text)
    else:
        damage(place.folder, name)
    plain, runner = place.runner("off").engine, place.runner()
    assert not runner.prepared.opened
    assert len(place.said) == 1
    assert "Tiny llama runs without its MTP layer: " in place.said[0]
    assert reply(runner.engine, PROMPT, GREEDY) == reply(plain, PROMPT, GREEDY)


def test_a_model_without_one_says_so(tmp_path: Path) -> None:
    place = Place(tmp_path)
    shutil.rmtree(place.folder)
    with pytest.raises(NotFoundError, match="Tiny llama has no MTP layer"):
        place.runner()
