"""Exports of models with recurrent layers: what is left out, listed or refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_kinds import Keys, States
from edgedec.core.errors import BadFileError, EdgeDecError, UnsupportedError
from edgedec.export import export_gguf, export_huggingface
from edgedec.export.architectures import ARCHITECTURES
from edgedec.export.gguf_source import open_gguf
from edgedec.export.huggingface.exporter import read_model
from edgedec.export.huggingface.groups import parse_quant
from edgedec.export.hyperparameters import read_hyperparameters
from edgedec.export.nextn import nextn_tensors
from edgedec.export.notes import notes
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface
from tests.fixtures.tiny_hybrid import DeltaShape

FURTHER = TinyShape(layers=4, delta=DeltaShape(nextn=1))
FILES = ("weights.bin", "model.onnx", "drafting.onnx")


def written(tmp_path: Path, architecture: str = "qwen35", shape: TinyShape = FURTHER) -> tuple[Path, Path]:
    """A GGUF file and a directory of one model."""
    gguf = write_tiny(tmp_path / "m.gguf", architecture, shape=shape)
    return gguf, write_huggingface(tmp_path / "source", gguf)


def edit(directory: Path, **changes: Any) -> None:
    path = directory / "config.json"
    fields = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in fields.items() if value is not None}))


def test_what_the_manifest_says_of_caches(tmp_path: Path) -> None:
    gguf, _ = written(tmp_path)
    spec = export_gguf(gguf, tmp_path / "bundle", backend="edgedec").spec
    row = DeltaShape().channels + 2 * 4
    assert spec.n_layers == 4
    assert spec.caches == (Keys("kv_cache", 1, 2, 16), States("delta", 3, row, 3, 4 * 16 * 32))
    small = write_tiny(tmp_path / "l.gguf", "lfm2", shape=TinyShape(layers=5))
    spec = export_gguf(small, tmp_path / "lfm2", backend="edgedec").spec
    assert spec.caches == (Keys("kv_cache", 3, 2, 16), States("conv", 2, 64, 2))


def test_layers_for_further_tokens_are_listed(tmp_path: Path) -> None:
    gguf, directory = written(tmp_path)
    read = read_model(directory, parse_quant("q8_0"))
    with open_gguf(gguf) as source:
        hyper = read_hyperparameters(ARCHITECTURES["qwen35"], source.metadata)
        found = nextn_tensors(hyper, source.tensors)
    assert found == nextn_tensors(read.hyper, read.weights.tensors)
    assert {name.removeprefix("blk.4.") for name in found} >= {"nextn.eh_proj.weight", "attn_q.weight"}
    assert len(found) == 15
    assert all(name.startswith("blk.4.") for name in found)


def test_a_model_saved_without_them_runs_without(tmp_path: Path) -> None:
    """As transformers saves it: config.json states the layer, and its tensors are gone."""
    gguf = write_tiny(tmp_path / "m.gguf", "qwen35", shape=TinyShape(layers=4))
    plain = write_huggingface(tmp_path / "plain", gguf)
    export_huggingface(plain, tmp_path / "A", name="same")
    edit(plain, mtp_num_hidden_layers=1)
    export_huggingface(plain, tmp_path / "B", name="same")
    for name in FILES:
        assert (tmp_path / "A" / name).read_bytes() == (tmp_path / "B" / name).read_bytes()


def test_pictures_are_left_out_with_a_line(tmp_path: Path) -> None:
    """The text part of a model that sees is the model of its text alone."""
    gguf, text = written(tmp_path)
    tower = {f"model.visual.blocks.{i}.norm1.weight": np.ones(7, np.float32) for i in range(3)}
    renamed = {**_inside(text), **tower}
    seeing = write_huggingface(tmp_path / "seeing", gguf, tensors=renamed)
    inner = json.loads((text / "config.json").read_text())
    outer = {"model_type": "qwen3_5", "text_config": inner, "vision_config": {}, "tie_word_embeddings": True}
    (seeing / "config.json").write_text(json.dumps(outer))
    export_huggingface(text, tmp_path / "A", name="same")
    manifest = export_huggingface(seeing, tmp_path / "B", name="same")
    for name in FILES:
        assert (tmp_path / "A" / name).read_bytes() == (tmp_path / "B" / name).read_bytes()
    assert notes(Manifest.load(tmp_path / "A")) == []
    assert notes(manifest) == ["note: same reads text only: 3 tensors for pictures are left out"]


def _inside(directory: Path) -> Mapping[str, Any]:
    """The tensors of a text model under the names that they have in one that sees; None for the others."""
    from safetensors.numpy import load_file

    found: dict[str, Any] = {}
    for name, values in load_file(str(directory / "model.safetensors")).items():
        if name.startswith("model."):
            found |= {name: None, f"model.language_model.{name.removeprefix('model.')}": values}
    return found


def test_a_list_of_key_heads_may_have_no_zeros(tmp_path: Path) -> None:
    """An LFM2 whose layers all have attention has a head count for each."""
    small = write_tiny(tmp_path / "l.gguf", "lfm2", shape=TinyShape(layers=2))
    spec = export_gguf(small, tmp_path / "lfm2", backend="edgedec").spec
    assert spec.kinds == (Keys("kv_cache", 2, 2, 16),)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"linear_num_value_heads": 3}, BadFileError, "96 values in 3 heads, and 2 key heads"),
        ({"linear_key_head_dim": 1 << 24}, BadFileError, "channels, more than any model"),
        ({"linear_key_head_dim": 24}, UnsupportedError, "recurrent heads of 24 and 32"),
        ({"linear_conv_kernel_dim": 9}, UnsupportedError, "convolutions over 9 tokens"),
        ({"layer_types": ["linear_attention"] * 4}, UnsupportedError, "no layer with attention"),
        ({"layer_types": ["full_attention"] * 3}, BadFileError, "layer_types in config.json does not fit"),
        (
            {"layer_types": ["full_attention", "linear_attention", "linear_attention", "full_attention"]},
            UnsupportedError,
            "are not every nth one",
        ),
        ({"attention_bias": True}, UnsupportedError, "attention_bias"),
        ({"linear_value_head_dim": 48}, BadFileError, "has shape"),
    ],
)
def test_qwen35_that_the_graph_cannot_express(
    changes: dict[str, Any], error: type[EdgeDecError], message: str, tmp_path: Path
) -> None:
    _, directory = written(tmp_path)
    edit(directory, **changes)
    with pytest.raises(error, match=message):
        export_huggingface(directory, tmp_path / "out")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"layer_types": ["conv"] * 5}, UnsupportedError, "no layer with attention"),
        ({"layer_types": ["conv"] * 4}, BadFileError, "layer_types in config.json does not fit"),
        ({"layer_types": ["mamba"] * 5}, UnsupportedError, "another kind"),
        ({"conv_bias": True}, UnsupportedError, "conv_bias"),
        ({"conv_L_cache": 4}, BadFileError, "has shape"),
    ],
)
def test_lfm2_that_the_graph_cannot_express(
    changes: dict[str, Any], error: type[EdgeDecError], message: str, tmp_path: Path
) -> None:
    _, directory = written(tmp_path, "lfm2", TinyShape(layers=5))
    edit(directory, **changes)
    with pytest.raises(error, match=message):
        export_huggingface(directory, tmp_path / "out")
