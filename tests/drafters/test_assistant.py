"""Assistants of real tiny models: read from both kinds of file, opened, planned for, and exact."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.core.assistant_facts import GRAPH, AssistantFacts
from edgedec.core.drafter_manifest import ASSISTANT, DRAFTER, DrafterManifest, Target
from edgedec.core.errors import EdgeDecError, NotFoundError, UnsupportedError, UsageError
from edgedec.core.manifest import WEIGHTS, Manifest
from edgedec.export.assistant.bundle import export_assistant
from edgedec.sampling import DrawParams
from tests.drafters.test_heads import GREEDY, PENALISED, SAMPLED, always, damage, plenty, reply
from tests.fixtures.assistants import (
    CLUSTERS,
    random_assistant,
    shape_for,
    target_with_rings,
    write_directory,
    write_gguf,
)
from tests.fixtures.tiny_models import prepared_run, tiny_bundle

PROMPT = [5, 6, 7, 8, 9, 10, 11]


class Place:
    """A target with layers of both kinds, and a home with an assistant for it."""

    def __init__(self, folder: Path, architecture: str = "gemma3", **sizes: Any) -> None:
        self.bundle, self.home = target_with_rings(folder, architecture), folder / "home"
        self.manifest = Manifest.load(self.bundle)
        self.shape = shape_for(self.manifest.spec, **{"centroids": CLUSTERS, **sizes})
        self.arrays = random_assistant(self.shape)
        self.source = write_directory(folder / "source", self.shape, self.arrays)
        self.folder = self.home / "drafters" / Target.of(self.manifest).short_hash / ASSISTANT
        export_assistant(self.source, self.bundle, self.folder)
        self.said: list[str] = []

    def runner(self, draft: str = ASSISTANT, **settings: object) -> Runner:
        config = RunConfig(**{"draft": draft, "threads": 1, "context": 256, **settings})  # type: ignore[arg-type]
        return Runner(prepared_run(self.bundle, config, RunContext(self.home, self.said.append)))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("assistant"))


@pytest.mark.parametrize("kv", ["fp16", "int8"])
@pytest.mark.parametrize("centroids", [0, CLUSTERS])
@pytest.mark.parametrize("architecture", ["gemma3", "gemma4"])
def test_replies_are_those_without_drafts(tmp_path: Path, architecture: str, centroids: int, kv: str) -> None:
    place = Place(tmp_path, architecture, centroids=centroids)
    plain, drafted = place.runner("off", kv=kv).engine, place.runner(kv=kv).engine
    assert drafted.speculation
    with always(drafted):
        for params in (GREEDY, SAMPLED, PENALISED):
            prompt, said = list(PROMPT), reply(plain, PROMPT, params)
            assert reply(drafted, prompt, params) == said
            longer = [*PROMPT, *said[:20], 3, 4, 5]  # a turn that keeps some and changes the rest
            assert reply(drafted, longer, params) == reply(plain, longer, params)
    assert drafted.speculation.tally.drafted > 100
    assert drafted.speculation.drafters == (ASSISTANT,)
    assert drafted.speculation.tally.by_drafter[ASSISTANT].bytes_read > 0


def test_random_conversations_that_rewind_are_those_without_drafts(place: Place) -> None:
    plain, drafted = place.runner("off").engine, place.runner("assistant,lookup,exit").engine
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
    assert ASSISTANT in drafted.speculation.drafters


def test_it_drafts_without_a_name_and_not_in_a_batch(place: Place) -> None:
    assert ASSISTANT in [spec.name for spec in place.runner("auto").drafting.drafters]
    with pytest.raises(UsageError, match="assistant cannot draft for a batch"):
        place.runner(conversations=2)
    batch = place.runner("auto", conversations=2)
    assert ASSISTANT not in [spec.name for spec in batch.drafting.drafters]


def test_a_cache_that_was_restored_goes_on_with_it(place: Place) -> None:
    text = [*PROMPT, *reply(place.runner("off").engine, PROMPT, GREEDY, 20)]
    plain, runner = place.runner("off").engine, place.runner()
    runner.forward.extend(text)
    runner.engine.adopt(text)
    with always(runner.engine):
        assert reply(runner.engine, [*text, 9, 8], GREEDY) == reply(plain, [*text, 9, 8], GREEDY)
    assert runner.engine.speculation
    assert runner.engine.speculation.tally.drafted


def test_its_memory_is_planned_and_leased(place: Place) -> None:
    runner = place.runner(memory=plenty)
    assert runner.budget
    with always(runner.engine):
        reply(runner.engine, PROMPT * 20, GREEDY)
    share, most = runner.budget.plan.parts[ASSISTANT], runner.ledger.most()[ASSISTANT]
    assert 0 < most <= share <= 1.1 * most


def test_a_gguf_file_makes_the_same_bundle(place: Place, tmp_path: Path) -> None:
    shape = replace(place.shape, chosen=32)
    source = write_directory(tmp_path / "source", shape, place.arrays)
    gguf = write_gguf(tmp_path / "assistant.gguf", shape, place.arrays)
    made = [export_assistant(one, place.bundle, tmp_path / one.stem / "out") for one in (source, gguf)]
    assert made[0].files == made[1].files
    assert made[0].facts == made[1].facts
    assert AssistantFacts.of(made[0].facts).scored == 32 * shape.vocab // CLUSTERS


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model_type", "gemma4"),
        ("backbone_hidden_size", 96),
        ("num_centroids", 7),
        ("use_ordered_embeddings", "yes"),
        ("text_config.layer_types", ["full_attention"]),
        ("text_config.layer_types", None),
        ("text_config.hidden_size", 32),
        ("text_config.head_dim", 32),
        ("text_config.num_hidden_layers", 10**9),
        ("text_config.num_attention_heads", 3),
        ("text_config.rms_norm_eps", 0),
        ("text_config", 3),
    ],
)
def test_a_strange_config_is_refused_in_one_line(
    place: Place, tmp_path: Path, field: str, value: object
) -> None:
    source = tmp_path / "source"
    shutil.copytree(place.source, source)
    config = json.loads((source / "config.json").read_text())
    *above, last = field.split(".")
    (config[above[0]] if above else config)[last] = value
    (source / "config.json").write_text(json.dumps(config))
    with pytest.raises(EdgeDecError) as caught:
        export_assistant(source, place.bundle, tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("ordering", [np.zeros(369, np.int64), np.arange(5), np.arange(369) - 1])
def test_an_ordering_that_does_not_list_every_token_is_refused(
    place: Place, tmp_path: Path, ordering: Any
) -> None:
    arrays = {**place.arrays, "masked_embedding.token_ordering": ordering.astype(np.int64)}
    source = write_directory(tmp_path / "source", place.shape, arrays)
    with pytest.raises(EdgeDecError, match="list every token once"):
        export_assistant(source, place.bundle, tmp_path / "out")


def test_damaged_weights_are_refused_in_one_line(place: Place, tmp_path: Path) -> None:
    draw = random.Random(3)
    gguf = write_gguf(tmp_path / "assistant.gguf", place.shape, place.arrays).read_bytes()
    safetensors = (place.source / "model.safetensors").read_bytes()
    directory = tmp_path / "source"
    shutil.copytree(place.source, directory)
    for number in range(60):
        data = bytearray(gguf if number % 2 else safetensors)
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(min(len(data), 3000))] = draw.randrange(256)
        if draw.random() < 0.3:
            data = data[: draw.randrange(len(data))]
        source = tmp_path / "damaged.gguf" if number % 2 else directory
        (source if number % 2 else directory / "model.safetensors").write_bytes(data)
        with suppress(EdgeDecError):  # or it is whole: some bytes change nothing but a weight
            export_assistant(source, place.bundle, tmp_path / "out")


def test_a_target_without_the_layers_that_it_reads_is_refused(place: Place, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="no layers of a kind"):
        export_assistant(place.source, tiny_bundle(tmp_path, "llama"), tmp_path / "out")


@pytest.mark.parametrize("name", [GRAPH, WEIGHTS, DRAFTER])
def test_a_damaged_one_is_refused_and_the_model_runs_without_it(tmp_path: Path, name: str) -> None:
    place = Place(tmp_path)
    if name == DRAFTER:
        text = (place.folder / DRAFTER).read_text().replace('"ffn": 96', '"ffn": 32')
        (place.folder / DRAFTER).write_text(text)
    else:
        damage(place.folder, name)
    plain, runner = place.runner("off").engine, place.runner()
    assert not runner.prepared.opened
    assert len(place.said) == 1
    assert "Tiny gemma3 runs without its assistant: " in place.said[0]
    assert reply(runner.engine, PROMPT, GREEDY) == reply(plain, PROMPT, GREEDY)


@pytest.mark.parametrize("changed", [{"hidden": 0}, {"scored": 1 << 40}, {"table_tiles": 1}, {"head_k": 3}])
def test_facts_that_do_not_fit_are_refused(tmp_path: Path, changed: dict[str, int]) -> None:
    place = Place(tmp_path)
    found = DrafterManifest.load(place.folder)
    replace(found, facts={**found.facts, **changed}).save(place.folder)
    assert not place.runner().prepared.opened
    assert "\n" not in place.said[0]


def test_a_model_without_one_says_so(tmp_path: Path) -> None:
    place = Place(tmp_path)
    shutil.rmtree(place.folder)
    with pytest.raises(NotFoundError, match="Tiny gemma3 has no assistant"):
        place.runner()
