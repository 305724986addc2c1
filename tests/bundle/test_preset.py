"""Presets: values in range, through the manifest and back, and in words."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgedec.assemble.config import RunConfig
from edgedec.bundle.manifest import Manifest
from edgedec.bundle.preset import OFF, Preset
from edgedec.core.errors import BadFileError, UsageError
from edgedec.sampling import DrawParams
from edgedec.sampling.named import SamplingParams
from tests.bundle.hostile import edit
from tests.bundle.test_manifest import make_bundle

QWEN = Preset(temperature=0.7, top_k=20, top_p=0.8, repetition_penalty=1.05, system="Hi", stops=("\nUser:",))


def test_a_preset_is_kept_in_the_manifest(tmp_path: Path) -> None:
    manifest = replace(make_bundle(tmp_path), preset=QWEN)
    manifest.save(tmp_path)
    assert Manifest.load(tmp_path).preset == QWEN
    assert json.loads((tmp_path / "manifest.json").read_text())["preset"] == {
        "temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.05,
        "system": "Hi", "stops": ["\nUser:"],
    }  # fmt: skip


def test_a_manifest_without_a_preset_has_all_of_it_off(tmp_path: Path) -> None:
    make_bundle(tmp_path)
    edit(tmp_path / "manifest.json", ("preset",), ...)
    assert Manifest.load(tmp_path).preset == OFF == Preset()


@pytest.mark.parametrize(
    "wrong",
    [
        None, [], "greedy", {"temprature": 1}, {"temperature": -1}, {"temperature": "0.7"},
        {"temperature": True}, {"temperature": 1e30}, {"temperature": math.nan}, {"temperature": math.inf},
        {"top_k": 1.5}, {"top_k": -1}, {"top_k": 10**30}, {"top_p": 0}, {"top_p": 2}, {"min_p": -0.1},
        {"top_n_sigma": 1e9}, {"repetition_penalty": 0}, {"repetition_penalty": 1e9},
        {"system": ""}, {"system": 1}, {"system": "x" * 30_000}, {"system": "\ud800"},
        {"stops": "x"}, {"stops": [""]}, {"stops": [1]}, {"stops": ["x" * 300]}, {"stops": ["x"] * 99},
    ],
)  # fmt: skip
def test_a_hostile_preset_is_one_clear_line(tmp_path: Path, wrong: Any) -> None:
    make_bundle(tmp_path)
    edit(tmp_path / "manifest.json", ("preset",), wrong)
    with pytest.raises(BadFileError, match=r"manifest\.json of the bundle is broken: 'preset'") as error:
        Manifest.load(tmp_path)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_a_value_out_of_range_is_a_usage_error() -> None:
    for wrong in ({"temperature": -1.0}, {"repetition_penalty": 1e9}, {"stops": ("",)}):
        with pytest.raises(UsageError):
            Preset(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("preset", "words"),
    [
        (OFF, "greedy"),
        (Preset(repetition_penalty=1.1), "greedy, repetition penalty 1.1"),
        (Preset(temperature=0.2, top_p=0.9), "temperature 0.2, top-p 0.9"),
        (
            QWEN,
            "temperature 0.7, top-k 20, top-p 0.8, repetition penalty 1.05, system message 'Hi',"
            " ends at '\\nUser:'",
        ),
    ],
)
def test_a_preset_in_words(preset: Preset, words: str) -> None:
    assert preset.summary() == words


def test_a_run_takes_the_preset_unless_it_says_otherwise() -> None:
    taken = DrawParams(temperature=0.7, top_k=20, top_p=0.8, repetition_penalty=1.05)
    assert RunConfig().sampling_for(QWEN) == taken
    assert RunConfig().sampling_for(OFF) == DrawParams()
    chosen = DrawParams(temperature=1.0, seed=4)
    assert RunConfig(sampling=chosen).sampling_for(QWEN) == chosen
    seeded = RunConfig(sampling=SamplingParams(seed=9))
    assert seeded.sampling_for(QWEN) == replace(taken, seed=9)
    assert replace(taken, seed=9).summary() == (
        "temperature 0.7, top-k 20, top-p 0.8, repetition penalty 1.05, seed 9"
    )
    assert DrawParams(seed=3).summary() == "greedy"
