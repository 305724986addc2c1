"""Hugging Face directories that are damaged, hostile or out of reach: one line, the right error, no
bundle.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.core.errors import BadFileError, EdgeDecError, NotFoundError, UnsupportedError, UsageError
from edgedec.export import export_huggingface
from edgedec.export.huggingface.shards import read_shards
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface

INDEX = "model.safetensors.index.json"
LAYER = "model.layers.0."
ODD = np.ones(16, dtype=np.float32)


def refused(source: Path, error: type[EdgeDecError], message: str) -> None:
    out = source.parent / "out"
    with pytest.raises(error, match=message) as caught:
        export_huggingface(source, out)
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)
    assert not list(source.parent.glob("out*"))


def yarn(**changes: object) -> dict[str, object]:
    usual = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}
    return {**usual, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1, **changes}


CONFIGS: list[tuple[str, dict[str, Any], type[EdgeDecError], str]] = [
    ("llama", {"model_type": "mamba"}, UnsupportedError, "model type 'mamba' .* llama, qwen2, qwen3"),
    ("llama", {"model_type": None}, BadFileError, "config.json lacks model_type"),
    ("llama", {"model_type": ["llama"]}, BadFileError, "model_type in config.json is .* not a text"),
    ("gemma3", {"model_type": "gemma3"}, UnsupportedError, "gemma3_text, are supported"),
    ("llama", {"hidden_size": None}, BadFileError, "config.json lacks hidden_size"),
    ("llama", {"hidden_size": -64}, BadFileError, "hidden_size in config.json is -64, not a size"),
    (
        "llama",
        {"hidden_size": 32},
        BadFileError,
        r"embed_tokens.weight has shape \[\d+, 64\], not \[\d+, 32\]",
    ),
    ("llama", {"num_hidden_layers": True}, BadFileError, "num_hidden_layers in config.json is True"),
    *(
        (name, {"num_hidden_layers": 1 << 24}, BadFileError, "num_hidden_layers in config.json is 16777216")
        for name in ("llama", "smollm3", "qwen3moe", "qwen35", "lfm2")
    ),
    (
        "llama",
        {"num_hidden_layers": 3},
        BadFileError,
        "the model lacks tensor model.layers.2.input_layernorm",
    ),
    ("llama", {"num_hidden_layers": 1}, UnsupportedError, "tensor 'model.layers.1.* does not use"),
    ("llama", {"num_attention_heads": 3}, BadFileError, "3 query heads"),
    ("llama", {"vocab_size": 100}, BadFileError, "a vocabulary of 100, the embedding the shape"),
    ("llama", {"tie_word_embeddings": False}, BadFileError, "lacks tensor lm_head.weight"),
    ("llama", {"tie_word_embeddings": "yes"}, BadFileError, "is 'yes', not true or false"),
    ("llama", {"rms_norm_eps": float("nan")}, BadFileError, "rms_norm_eps in config.json is nan"),
    ("llama", {"rope_theta": 0}, BadFileError, "rope_theta .* is 0.0, not above 0"),
    ("llama", {"rope_scaling": {"type": "yarn", "factor": 4.0}}, UnsupportedError, "rope scaling 'yarn'"),
    ("llama", {"rope_scaling": {"type": "llama3"}}, BadFileError, "rope_scaling of config.json lacks factor"),
    ("llama", {"rope_scaling": {"type": "longrope"}}, UnsupportedError, "rope scaling 'longrope'"),
    ("phi3", {"rope_scaling": {"type": "longrope"}}, BadFileError, "lacks short_factor"),
    ("phi3", {"rope_scaling": {"type": "su", "short_factor": [1]}}, BadFileError, "not a list of 8"),
    ("phi3", {"rope_scaling": {"type": "su", "short_factor": [0] * 8}}, BadFileError, "not above 0"),
    ("phi3", {"sliding_window": -1}, BadFileError, "sliding_window .* is -1"),
    ("llama", {"rope_scaling": [1]}, BadFileError, "rope_scaling in config.json is .* not an object"),
    ("llama", {"partial_rotary_factor": 0.5}, UnsupportedError, "partial rotary positions .8 of 16."),
    ("phi3", {"partial_rotary_factor": 0.45}, UnsupportedError, "partial rotary positions .7 of 16."),
    ("smollm3", {"no_rope_layers": [1, 0]}, UnsupportedError, "no_rope_layers in .* not every 4th"),
    ("smollm3", {"no_rope_layer_interval": 3}, UnsupportedError, "not every 4th"),
    ("qwen3vl", {"model_type": "qwen3_vl_moe"}, UnsupportedError, "the dense models, qwen3_vl"),
    ("llama", {"model_type": "granitemoehybrid"}, UnsupportedError, "no op for Mamba-2 layers; llama.cpp"),
    ("llama", {"model_type": "gemma3n"}, UnsupportedError, "no op for AltUp layers; llama.cpp"),
    ("llama", {"model_type": "gemma3n_text"}, UnsupportedError, "no op for AltUp layers; llama.cpp"),
    ("mistral3", {"head_dim": 1 << 24}, UnsupportedError, "a head size of 16777216"),
    ("mistral3", {"sliding_window": 8}, UnsupportedError, "a sliding window in mistral3"),
    ("mistral3", {"rope_parameters": None}, BadFileError, "lacks rope_parameters"),
    ("mistral3", {"rope_parameters": yarn(factor=0.5)}, BadFileError, "YaRN parameters contradict"),
    ("mistral3", {"rope_parameters": yarn(beta_slow=64.0)}, BadFileError, "YaRN parameters contradict"),
    ("mistral3", {"rope_parameters": yarn(rope_theta=1.0)}, BadFileError, "YaRN parameters contradict"),
    ("mistral3", {"rope_parameters": yarn(mscale=0.7)}, UnsupportedError, "an mscale of YaRN"),
    ("mistral3", {"rope_parameters": yarn(attention_factor=2.0)}, UnsupportedError, "attention_factor"),
    ("mistral3", {"rope_parameters": yarn(truncate=False)}, UnsupportedError, "truncate"),
    ("mistral3", {"rope_parameters": yarn(original_max_position_embeddings=0)}, BadFileError, "not a size"),
    ("llama", {"hidden_act": "relu"}, UnsupportedError, "activation 'relu'"),
    ("llama", {"quantization_config": {"bits": 4}}, UnsupportedError, "quantised already"),
    ("llama", {"final_logit_softcapping": 30.0}, UnsupportedError, "final_logit_softcapping"),
    ("qwen2", {"use_sliding_window": True}, UnsupportedError, "a sliding window in qwen2"),
    ("qwen3", {"layer_types": ["full_attention", "sliding_attention"]}, UnsupportedError, "sliding window"),
    ("qwen3", {"layer_types": ["linear_attention"] * 2}, UnsupportedError, "layers of another kind"),
    ("gemma3", {"layer_types": ["full_attention"]}, BadFileError, "does not fit the layers"),
    ("gemma3", {"sliding_window": None}, BadFileError, "lacks sliding_window"),
    ("gemma3", {"query_pre_attn_scalar": 0}, BadFileError, "query_pre_attn_scalar .* not above 0"),
    ("gemma3", {"use_bidirectional_attention": True}, UnsupportedError, "both directions"),
]


@pytest.mark.parametrize(("architecture", "config", "error", "message"), CONFIGS)
def test_config(
    architecture: str, config: dict[str, Any], error: type[EdgeDecError], message: str, tmp_path: Path
) -> None:
    gguf = write_tiny(tmp_path / "m.gguf", architecture)
    refused(write_huggingface(tmp_path / "source", gguf, config=config), error, message)


TENSORS: list[tuple[str, Any, type[EdgeDecError], str]] = [
    ("model.embed_tokens.weight", None, BadFileError, "lacks tensor model.embed_tokens.weight"),
    ("model.embed_tokens.weight", ODD, BadFileError, r"the embedding the shape \[16\]"),
    (f"{LAYER}mlp.up_proj.weight", None, BadFileError, "lacks tensor model.layers.0.mlp.up_proj.weight"),
    (f"{LAYER}self_attn.q_proj.bias", ODD, UnsupportedError, "model.layers.0.self_attn.q_proj.bias"),
    (f"{LAYER}input_layernorm.weight", ODD, BadFileError, r"input_layernorm.weight has shape \[16\]"),
    (f"{LAYER}self_attn.q_proj.weight", np.ones((64, 40), np.float32), UnsupportedError, "rows of 40"),
    (f"{LAYER}self_attn.q_proj.weight", np.ones((64, 96), np.float32), BadFileError, r"q_proj.* \[64, 96\]"),
    (f"{LAYER}mlp.up_proj.weight", np.full((96, 64), np.nan, np.float32), BadFileError, "not finite"),
    ("model.norm.weight", np.full(64, np.inf, np.float32), BadFileError, "not finite"),
    (f"{LAYER}mlp.gate_up_proj.weight", np.ones((192, 64), np.float32), UnsupportedError, "gate_up_proj"),
    ("vision.weight", np.ones((4, 4, 2, 32), np.float32), UnsupportedError, "tensor 'vision.weight'"),
    ("scalar", np.float32(3), UnsupportedError, "tensor 'scalar'"),
]


@pytest.mark.parametrize(("name", "values", "error", "message"), TENSORS)
def test_tensors(name: str, values: Any, error: type[EdgeDecError], message: str, tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "m.gguf")
    refused(write_huggingface(tmp_path / "source", gguf, tensors={name: values}), error, message)


@pytest.fixture
def single(tmp_path: Path) -> Path:
    return write_huggingface(tmp_path / "single", write_tiny(tmp_path / "m.gguf"))


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    return write_huggingface(tmp_path / "sharded", write_tiny(tmp_path / "m.gguf"), shards=2)


def change(path: Path, alter: Callable[[bytes], bytes]) -> None:
    path.write_bytes(alter(path.read_bytes()))


ALTERATIONS: list[tuple[Callable[[bytes], bytes], type[EdgeDecError], str]] = [
    (lambda _: b"", BadFileError, "model.safetensors is truncated or damaged"),
    (lambda data: data[:5], BadFileError, "truncated or damaged"),
    (lambda data: data[:400], BadFileError, "truncated or damaged"),
    (lambda data: data[:-1], BadFileError, "truncated or damaged"),
    (lambda data: data + b"x", BadFileError, "truncated or damaged"),
    (lambda data: (1 << 62).to_bytes(8, "little") + data[8:], BadFileError, "truncated or damaged"),
    (lambda data: data.replace(b'"F32"', b'"I32"'), UnsupportedError, "is I32 .supported are F32, F16, BF16"),
    (lambda data: data.replace(b'"F32"', b'"XYZ"'), BadFileError, "truncated or damaged"),
]


@pytest.mark.parametrize(("alter", "error", "message"), ALTERATIONS)
def test_damaged_weights(
    alter: Callable[[bytes], bytes], error: type[EdgeDecError], message: str, single: Path
) -> None:
    change(single / "model.safetensors", alter)
    refused(single, error, message)


def test_a_file_that_shrinks_while_it_is_read(single: Path) -> None:
    stored = read_shards([single / "model.safetensors"])["model.norm.weight"]
    assert stored.read(0, 64).shape == (64,)
    change(single / "model.safetensors", lambda data: data[: stored.offset + 8])
    with pytest.raises(BadFileError, match=r"model\.safetensors ends inside tensor model\.norm"):
        stored.read(0, 64)


def test_missing_weights(single: Path) -> None:
    (single / "model.safetensors").unlink()
    refused(single, NotFoundError, "has no model.safetensors")
    (single / "pytorch_model.bin").write_bytes(b"pickle")
    refused(single, UnsupportedError, "pickled weights only")


def test_a_missing_shard(sharded: Path) -> None:
    (sharded / "model-00002-of-00002.safetensors").unlink()
    refused(sharded, BadFileError, "lacks model-00002-of-00002.safetensors, which .* names")


def test_the_same_tensor_twice(sharded: Path) -> None:
    first = sharded / "model-00001-of-00002.safetensors"
    (sharded / "model-00002-of-00002.safetensors").write_bytes(first.read_bytes())
    refused(sharded, BadFileError, "lies in two files")


@pytest.mark.parametrize(
    "name",
    [
        "../elsewhere.safetensors",
        "/etc/elsewhere.safetensors",
        "a/../b.safetensors",
        "..",
        "",
        "config.json",
        "..\\elsewhere.safetensors",
        "a\nb.safetensors",
        "\0.safetensors",
        "long" * 63 + ".safetensors",
    ],
)
def test_an_index_can_not_leave_the_directory(name: str, sharded: Path) -> None:
    other = sharded.parent / "elsewhere.safetensors"
    other.write_bytes((sharded / "model-00001-of-00002.safetensors").read_bytes())
    (sharded / INDEX).write_text(json.dumps({"weight_map": {"model.norm.weight": name}}))
    refused(sharded, BadFileError, "which is no file of the model's directory")


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", '{"weight_map": {}}', '{"weight_map": {"a": 3}}', "["])
def test_a_broken_index(text: str, sharded: Path) -> None:
    (sharded / INDEX).write_text(text)
    refused(sharded, BadFileError, INDEX)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "tokenizer.json"])
@pytest.mark.parametrize("data", [b"", b"[1]", b"{", b"\xff\xfe", b"[" * 100000])
def test_broken_json(name: str, data: bytes, single: Path) -> None:
    (single / name).write_bytes(data)
    refused(single, BadFileError, name)


def test_an_unknown_token_that_the_vocabulary_lacks(single: Path) -> None:
    document = json.loads((single / "tokenizer.json").read_text())
    document["model"] |= {"unk_token": "<nowhere>", "byte_fallback": False}
    document["pre_tokenizer"] = document["normalizer"] = None
    (single / "tokenizer.json").write_text(json.dumps(document))
    refused(single, BadFileError, "tokenizer.json is not a valid tokenizer: .*<nowhere>")


def test_half_a_character_in_a_template(single: Path) -> None:
    (single / "chat_template.jinja").unlink(missing_ok=True)
    (single / "tokenizer_config.json").write_text('{"chat_template": "a\\ud800"}')
    refused(single, BadFileError, "chat template in tokenizer_config.json is not Unicode text .character 1")


def test_missing_files(single: Path) -> None:
    (single / "tokenizer.json").rename(single / "vocab.json")
    refused(single, UnsupportedError, "has no tokenizer.json")
    (single / "vocab.json").unlink()
    refused(single, BadFileError, "has no tokenizer.json")
    (single / "config.json").unlink()
    refused(single, NotFoundError, "has no config.json")
    refused(single.parent / "nowhere", NotFoundError, "no directory")


def test_a_tokenizer_that_does_not_fit(single: Path) -> None:
    document = json.loads((single / "tokenizer.json").read_text())
    extra = {**document["added_tokens"][0], "content": "<|new|>", "id": 10_000}
    document["added_tokens"].append(extra)
    (single / "tokenizer.json").write_text(json.dumps(document))
    refused(single, BadFileError, "tokenizer.json has a token with id")
    document["added_tokens"].pop()
    document["decoder"] = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    (single / "tokenizer.json").write_text(json.dumps(document))
    refused(single, UnsupportedError, "decodes neither bytes")


def test_steps_that_multiply_text_are_not_tried(single: Path) -> None:
    document = json.loads((single / "tokenizer.json").read_text())
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [step] * 1000}
    (single / "tokenizer.json").write_text(json.dumps(document))
    refused(single, UnsupportedError, "the tokenizer rewrites text in more steps than a model needs")


def test_arguments(single: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no quantisation 'q9'"):
        export_huggingface(single, tmp_path / "out", quant="q9")
    with pytest.raises(UsageError, match="is not empty and is no EdgeDec bundle"):
        export_huggingface(single, single)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer.json"])
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")
def test_a_pipe_is_not_waited_for(name: str, single: Path) -> None:
    (single / name).unlink(missing_ok=True)
    os.mkfifo(single / name)
    refused(single, BadFileError, f"{name} is not a file")


def test_narrow_heads(tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "m.gguf", shape=TinyShape(heads=8, head_dim=8))
    refused(write_huggingface(tmp_path / "source", gguf), UnsupportedError, "a head size of 8")
