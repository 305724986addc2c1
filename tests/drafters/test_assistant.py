"""Assistants of real tiny models: read from both kinds of file, hostile ones too."""

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

from edgedec.bundle.assistant_facts import AssistantFacts
from edgedec.bundle.drafter_manifest import DrafterManifest
from edgedec.core.errors import EdgeDecError, UnsupportedError
from edgedec.export.drafters.install import convert_drafter
from tests.fixtures.assistants import CLUSTERS, write_directory, write_gguf
from tests.fixtures.carried import AssistantPlace
from tests.fixtures.tiny_models import tiny_bundle


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> AssistantPlace:
    return AssistantPlace(tmp_path_factory.mktemp("assistant"))


def test_a_gguf_file_makes_the_same_bundle(place: AssistantPlace, tmp_path: Path) -> None:
    shape = replace(place.shape, chosen=32)
    source = write_directory(tmp_path / "source", shape, place.arrays)
    gguf = write_gguf(tmp_path / "assistant.gguf", shape, place.arrays)
    made = [convert_drafter(one, place.bundle, tmp_path / one.stem / "out") for one in (source, gguf)]
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
    place: AssistantPlace, tmp_path: Path, field: str, value: object
) -> None:
    source = tmp_path / "source"
    shutil.copytree(place.source, source)
    config = json.loads((source / "config.json").read_text())
    *above, last = field.split(".")
    (config[above[0]] if above else config)[last] = value
    (source / "config.json").write_text(json.dumps(config))
    with pytest.raises(EdgeDecError) as caught:
        convert_drafter(source, place.bundle, tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("ordering", [np.zeros(369, np.int64), np.arange(5), np.arange(369) - 1])
def test_an_ordering_that_does_not_list_every_token_is_refused(
    place: AssistantPlace, tmp_path: Path, ordering: Any
) -> None:
    arrays = {**place.arrays, "masked_embedding.token_ordering": ordering.astype(np.int64)}
    source = write_directory(tmp_path / "source", place.shape, arrays)
    with pytest.raises(EdgeDecError, match="list every token once"):
        convert_drafter(source, place.bundle, tmp_path / "out")


def test_damaged_weights_are_refused_in_one_line(place: AssistantPlace, tmp_path: Path) -> None:
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
            convert_drafter(source, place.bundle, tmp_path / "out")


def test_a_target_without_the_layers_that_it_reads_is_refused(place: AssistantPlace, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="no layers of a kind"):
        convert_drafter(place.source, tiny_bundle(tmp_path, "llama"), tmp_path / "out")


@pytest.mark.parametrize("changed", [{"hidden": 0}, {"scored": 1 << 40}, {"table_tiles": 1}, {"head_k": 3}])
def test_facts_that_do_not_fit_are_refused(tmp_path: Path, changed: dict[str, int]) -> None:
    place = AssistantPlace(tmp_path)
    found = DrafterManifest.load(place.folder)
    replace(found, facts={**found.facts, **changed}).save(place.folder)
    assert not place.runner().prepared.opened
    assert "\n" not in place.said[0]
