"""Models that also see and hear: their towers are left out, which is said once; the text part is the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError, EdgeDecError, UnsupportedError
from edgedec.export import export_gguf, export_huggingface
from edgedec.export.architectures import ARCHITECTURES
from edgedec.export.gguf_source import open_gguf
from edgedec.export.hyperparameters import read_hyperparameters
from edgedec.export.notes import notes
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_huggingface import save_tensors, write_huggingface

SHAPE = TinyShape(layers=7)
TOWERS: dict[str, Any] = {
    "model.vision_tower.encoder.layers.0.mlp.up_proj.linear.weight": np.ones((5, 7), np.float32),
    "model.audio_tower.layers.0.conv.weight": np.ones((3, 1, 5), np.float32),
    "model.embed_vision.embedding_projection.weight": np.ones((64, 9), np.float32),
    "model.embed_audio.embedding_projection.weight": np.ones((64, 9), np.float32),
}


def source_of(tmp_path: Path, **options: Any) -> Path:
    gguf = write_tiny(tmp_path / "m.gguf", "gemma4", shape=SHAPE)
    return write_huggingface(tmp_path / "source", gguf, **options)


def see(source: Path, kind: str = "gemma4") -> None:
    """Make a directory of the text part one of the whole model, as its makers publish it."""
    text = json.loads((source / "config.json").read_text())
    tied = {"tie_word_embeddings": text["tie_word_embeddings"]}
    whole = {"model_type": kind, "text_config": text, "vision_config": {}, "audio_config": {}, **tied}
    (source / "config.json").write_text(json.dumps(whole))


def test_the_text_part_of_a_model_that_sees_and_hears(tmp_path: Path) -> None:
    plain = source_of(tmp_path)
    export_huggingface(plain, tmp_path / "text", name="same")
    whole = source_of(tmp_path, tensors=TOWERS)
    see(whole)
    manifest = export_huggingface(whole, tmp_path / "whole", name="same")
    for name in ("model.onnx", "drafting.onnx", "weights.bin"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "text" / name).read_bytes(), name
    assert manifest.spec == Manifest.load(tmp_path / "text").spec
    (line,) = notes(manifest)
    assert line == "note: same reads text only: 4 tensors for pictures are left out"


EYES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3vl": (
        "qwen3_vl",
        {
            "model.visual.patch_embed.proj.weight": np.ones((4, 3, 2, 5, 5), np.float32),
            "model.visual.deepstack_merger_list.0.norm.weight": np.ones(9, np.float32),
        },
    ),
    "mistral3": (
        "mistral3",
        {
            "vision_tower.patch_conv.weight": np.ones((4, 3, 5, 5), np.float32),
            "multi_modal_projector.linear_1.weight": np.ones((64, 9), np.float32),
        },
    ),
}
SPELLINGS = {  # those of transformers today, and those of files that were made before
    "today": (("model.", "model.language_model."), ("lm_head.", "lm_head.")),
    "before": (("model.", "language_model.model."), ("lm_head.", "language_model.lm_head.")),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("architecture", EYES)
def test_models_that_see_alone(architecture: str, tied: bool, spelling: str, tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "m.gguf", architecture, tied=tied)
    plain = write_huggingface(tmp_path / "plain", gguf)
    export_huggingface(plain, tmp_path / "text", name="same")
    kind, towers = EYES[architecture]
    tensors = dict(load_file(plain / "model.safetensors"))
    renamed = {_spelt(name, SPELLINGS[spelling]): values for name, values in tensors.items()}
    whole = write_huggingface(tmp_path / "whole", gguf)
    save_tensors(whole, {**renamed, **towers})
    see(whole, kind)
    manifest = export_huggingface(whole, tmp_path / "bundle", name="same")
    for name in ("model.onnx", "drafting.onnx", "weights.bin"):
        assert (tmp_path / "bundle" / name).read_bytes() == (tmp_path / "text" / name).read_bytes(), name
    assert notes(manifest) == ["note: same reads text only: 2 tensors for pictures are left out"]


def _spelt(name: str, pairs: tuple[tuple[str, str], ...]) -> str:
    begin, other = next(pair for pair in pairs if name.startswith(pair[0]))
    return other + name.removeprefix(begin)


@pytest.mark.parametrize("inner", ["mistral", "mistral4", "qwen3_vl_moe_text"])
def test_other_models_that_see_are_refused(inner: str, tmp_path: Path) -> None:
    source = write_huggingface(tmp_path / "source", write_tiny(tmp_path / "m.gguf", "mistral3"))
    see(source, "mistral3")
    config = json.loads((source / "config.json").read_text())
    config["text_config"]["model_type"] = inner
    (source / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedError, match=f"model type '{inner}' is not supported"):
        export_huggingface(source, tmp_path / "bundle")


def test_towers_in_a_gguf_file(tmp_path: Path) -> None:
    """Some programs write them into the file of the text part."""
    extra = {
        "v.blk.0.attn_q.weight": np.ones((4, 32), np.float32),
        "a.conv1d.0.weight": np.ones(3, np.float32),
    }
    gguf = write_tiny(tmp_path / "m.gguf", "gemma4", shape=SHAPE, extra_tensors=extra)
    manifest = export_gguf(gguf, tmp_path / "bundle", name="same")
    assert notes(manifest) == ["note: same reads text only: 2 tensors for pictures and sound are left out"]
    plain = write_tiny(tmp_path / "p.gguf", "gemma4", shape=SHAPE)
    assert notes(export_gguf(plain, tmp_path / "plain", name="same")) == []
    assert (tmp_path / "plain" / "weights.bin").read_bytes() == (
        tmp_path / "bundle" / "weights.bin"
    ).read_bytes()


def test_keys_of_layers_that_share_them_are_left(tmp_path: Path) -> None:
    """Checkpoints and files of the makers hold them all the same."""
    extra = {
        "blk.5.attn_k.weight": np.ones((32, 64), np.float32),
        "blk.5.attn_k_norm.weight": np.ones(32, np.float32),
    }
    gguf = write_tiny(tmp_path / "m.gguf", "gemma4", shape=SHAPE, extra_tensors=extra)
    export_gguf(gguf, tmp_path / "bundle", name="same")
    export_gguf(write_tiny(tmp_path / "p.gguf", "gemma4", shape=SHAPE), tmp_path / "plain", name="same")
    assert (tmp_path / "plain" / "weights.bin").read_bytes() == (
        tmp_path / "bundle" / "weights.bin"
    ).read_bytes()


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"enable_moe_block": True}, BadFileError, "lacks moe_intermediate_size"),
        ({"attention_bias": True}, UnsupportedError, "biases of attention"),
        ({"use_bidirectional_attention": "all"}, UnsupportedError, "both directions"),
        ({"rope_parameters": None}, BadFileError, "lacks rope_parameters"),
        ({"num_kv_shared_layers": 5}, BadFileError, "find no keys to share"),
        ({"layer_types": ["sliding_attention"] * 7}, EdgeDecError, "find no keys to share|without a window"),
        (
            {"per_layer_config": {"0": {"head_dim": 64}}},
            UnsupportedError,
            "differs between layers of one kind",
        ),
        ({"hidden_size_per_layer_input": 1 << 20}, BadFileError, "per-layer embedding has 7 times"),
        ({"intermediate_size": 1 << 30}, BadFileError, "intermediate_size"),
        ({"num_key_value_heads": 3}, BadFileError, "can not share 3 key heads"),
    ],
)
def test_what_the_graph_cannot_express(
    tmp_path: Path, changes: dict[str, Any], kind: type[EdgeDecError], words: str
) -> None:
    source = source_of(tmp_path, config=changes)
    with pytest.raises(kind, match=words):
        export_huggingface(source, tmp_path / "bundle")


def test_key_heads_that_differ_between_layers_of_one_kind(tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "m.gguf", "gemma4", shape=SHAPE)
    with open_gguf(gguf) as source:
        keys = dict(source.metadata)
    heads = keys["gemma4.attention.head_count_kv"]
    keys["gemma4.attention.head_count_kv"] = [3 - heads[0], *heads[1:]]
    with pytest.raises(UnsupportedError, match="the model's key heads differ between layers of one kind"):
        read_hyperparameters(ARCHITECTURES["gemma4"], keys)


def test_sizes_as_transformers_saves_them(tmp_path: Path) -> None:
    """By layer, in the place of fields of their own."""
    export_huggingface(source_of(tmp_path), tmp_path / "one", name="same")
    whole = {"head_dim": 32, "num_key_value_heads": 1}
    sizes = {str(layer): whole for layer in (2, 5, 6)}
    none = dict.fromkeys(("global_head_dim", "num_global_key_value_heads"))
    source = source_of(tmp_path, config={**none, "attention_k_eq_v": False, "per_layer_config": sizes})
    export_huggingface(source, tmp_path / "other", name="same")
    assert (tmp_path / "one" / "model.onnx").read_bytes() == (tmp_path / "other" / "model.onnx").read_bytes()
