"""Decoders that make vectors: the same bits alone, windows to both sides, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from edgedec.core.errors import BackendError, UnsupportedError, UsageError
from edgedec.embed.encoder import load_encoder
from edgedec.export import export_huggingface
from tests.embed.twins import describe
from tests.fixtures.tiny_bert import write_bert
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface
from tests.kernels.float_rows import same_bits

TEXTS = ["the cat sat", "a dog", "why is the sky blue . " * 5, "sky"]


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3"])
def test_a_batch_has_the_bits_of_its_texts_alone(tmp_path: Path, family: str) -> None:
    directory = write_huggingface(tmp_path / "model", write_tiny(tmp_path / "tiny.gguf", family))
    describe(directory)
    export_huggingface(directory, tmp_path / "bundle")
    encoder = load_encoder(tmp_path / "bundle", threads=2)
    together = encoder.embed(TEXTS).vectors
    assert same_bits(together, np.concatenate([encoder.embed([text]).vectors for text in TEXTS]))
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    assert encoder.context <= encoder.manifest.spec.context_length


def test_tokens_behind_are_seen_where_the_model_sees_both_ways(tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "tiny.gguf", "gemma3")
    found = {}
    for both in (False, True):
        directory = write_huggingface(tmp_path / f"model-{both}", gguf)
        config = json.loads((directory / "config.json").read_text())
        (directory / "config.json").write_text(json.dumps({**config, "use_bidirectional_attention": both}))
        describe(directory, pooling="cls_token")
        export_huggingface(directory, tmp_path / f"bundle-{both}")
        found[both] = load_encoder(tmp_path / f"bundle-{both}").embed(["the cat", "the dog"]).vectors
    assert same_bits(found[False][0], found[False][1])  # the first token sees itself alone
    assert np.abs(found[True][0] - found[True][1]).max() > 1e-4


def test_an_empty_text_without_tokens_of_its_own_is_refused(tmp_path: Path) -> None:
    directory = write_huggingface(tmp_path / "model", write_tiny(tmp_path / "tiny.gguf", "qwen3"))
    describe(directory)
    tokenizer = json.loads((directory / "tokenizer.json").read_text())
    (directory / "tokenizer.json").write_text(json.dumps({**tokenizer, "post_processor": None}))
    export_huggingface(directory, tmp_path / "bundle")
    encoder = load_encoder(tmp_path / "bundle")
    with pytest.raises(UsageError, match="a text is empty"):
        encoder.embed(["the cat", ""])
    assert encoder.embed(["the cat"]).vectors.shape == (1, 64)


def test_numbers_that_are_none_are_an_error_and_no_vector(tmp_path: Path) -> None:
    directory = write_bert(tmp_path / "model")
    weights = load_file(directory / "model.safetensors")
    weights["encoder.layer.1.attention.self.value.bias"][:] = 1e9
    save_file(weights, directory / "model.safetensors")
    export_huggingface(directory, tmp_path / "bundle")
    with pytest.raises(BackendError, match="is no number"):
        load_encoder(tmp_path / "bundle").embed(["the cat"])


def test_decoders_with_experts_are_refused(tmp_path: Path) -> None:
    directory = write_huggingface(tmp_path / "model", write_tiny(tmp_path / "tiny.gguf", "qwen3moe"))
    describe(directory)
    with pytest.raises(UnsupportedError, match="make no vectors here"):
        export_huggingface(directory, tmp_path / "bundle")
