"""Presets come from the files of a model, unless its recipe knows better."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgedec.bundle.manifest import Manifest
from edgedec.bundle.preset import OFF, Preset
from edgedec.core.errors import BadFileError
from edgedec.export import ModelCard, export_gguf, export_huggingface
from edgedec.export.model_card import generation_preset
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface

SAMPLING = {
    "general.sampling.temp": 0.7, "general.sampling.top_k": 20, "general.sampling.top_p": 0.8,
    "general.sampling.min_p": 0.05, "general.sampling.penalty_repeat": 1.05,
}  # fmt: skip


def test_a_gguf_file_brings_its_preset(tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "m.gguf", extra=SAMPLING)
    export_gguf(gguf, tmp_path / "out")
    expected = Preset(temperature=0.7, top_k=20, top_p=0.8, min_p=0.05, repetition_penalty=1.05)
    assert Manifest.load(tmp_path / "out").preset == expected


@pytest.mark.parametrize(("version", "bits"), [(0, 0.0), (1, 0.0), (2, 4.5)])
def test_mirostat_of_version_2_is_read_from_a_gguf_file(tmp_path: Path, version: int, bits: float) -> None:
    keys = {"mirostat": version, "mirostat_tau": 4.5, "mirostat_eta": 0.2}
    extra = SAMPLING | {f"general.sampling.{key}": value for key, value in keys.items()}
    export_gguf(write_tiny(tmp_path / "m.gguf", extra=extra), tmp_path / "out")
    preset = Manifest.load(tmp_path / "out").preset
    assert (preset.mirostat, preset.mirostat_eta) == (bits, 0.2 if bits else 0.1)


def test_a_card_comes_before_the_file(tmp_path: Path) -> None:
    gguf, card = write_tiny(tmp_path / "m.gguf", extra=SAMPLING), Preset(temperature=0.2, system="Hi")
    assert export_gguf(gguf, tmp_path / "out", card=ModelCard(preset=card)).preset == card
    assert export_gguf(gguf, tmp_path / "out", card=ModelCard(preset=OFF)).preset == OFF


def test_a_gguf_file_that_names_none_has_none(tmp_path: Path) -> None:
    assert export_gguf(write_tiny(tmp_path / "m.gguf"), tmp_path / "out").preset == OFF


@pytest.mark.parametrize(
    ("key", "value"), [("temp", -1.0), ("temp", "hot"), ("top_p", 7.0), ("temp", float("nan"))]
)
def test_a_hostile_value_in_a_gguf_file_is_one_clear_line(tmp_path: Path, key: str, value: Any) -> None:
    gguf = write_tiny(tmp_path / "m.gguf", extra={**SAMPLING, f"general.sampling.{key}": value})
    with pytest.raises(BadFileError, match=r"general\.sampling of the GGUF metadata"):
        export_gguf(gguf, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("config", "preset"),
    [
        ({}, OFF),
        ({"eos_token_id": 2, "transformers_version": "4.45"}, OFF),
        (
            {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.1},
            Preset(temperature=0.7, top_p=0.8, top_k=20, repetition_penalty=1.1),
        ),
        ({"do_sample": True, "top_k": 64, "top_p": 0.95}, Preset(temperature=1.0, top_k=64, top_p=0.95)),
        ({"temperature": 0.6, "top_p": 0.9}, Preset(temperature=0.6, top_p=0.9, top_k=50)),
        ({"do_sample": False, "temperature": 0.6, "top_p": None}, OFF),
        ({"do_sample": False, "repetition_penalty": 1.2}, Preset(repetition_penalty=1.2)),
        ({"temperature": None, "top_k": None}, OFF),
        ({"temperature": 0.6, "top_k": -1}, Preset(temperature=0.6)),
        (
            {"do_sample": True, "top_k": 0, "typical_p": 0.9, "eta_cutoff": 0.001, "top_h": 0.4},
            Preset(temperature=1.0, typical=0.9, eta=0.001, top_h=0.4),
        ),
        ({"do_sample": False, "typical_p": 0.9, "top_h": None}, OFF),
    ],
)
def test_generation_config_is_read_as_transformers_reads_it(config: dict[str, Any], preset: Preset) -> None:
    assert generation_preset(config, "generation_config.json") == preset


def test_a_hugging_face_directory_brings_its_preset(tmp_path: Path) -> None:
    source = write_huggingface(tmp_path / "hf", write_tiny(tmp_path / "m.gguf"))
    (source / "generation_config.json").write_text(json.dumps({"do_sample": True, "temperature": 0.5}))
    export_huggingface(source, tmp_path / "out")
    assert Manifest.load(tmp_path / "out").preset == Preset(temperature=0.5, top_k=50)


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", '{"temperature": -1}', '{"temperature": "hot"}', '{"temperature": NaN}',
        '{"temperature": 1e30}', '{"do_sample": true, "top_p": 0}', '{"do_sample": true, "top_k": 2.5}',
        '{"repetition_penalty": [1]}',
    ],
)  # fmt: skip
def test_a_damaged_generation_config_is_one_clear_line(tmp_path: Path, text: str) -> None:
    source = write_huggingface(tmp_path / "hf", write_tiny(tmp_path / "m.gguf"))
    (source / "generation_config.json").write_text(text)
    with pytest.raises(BadFileError, match=r"^generation_config\.json") as error:
        export_huggingface(source, tmp_path / "out")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()
