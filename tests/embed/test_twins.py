"""Models that transformers makes and saves, exported and run here: the same vectors and scores.

Needs torch and transformers (extra ``bench``): ``python -m pytest -m slow tests/embed``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer

from edgedec.embed.encoder import load_encoder
from edgedec.export import export_huggingface
from edgedec.export.encoders.decoder_directory import RANKING
from tests.embed.twins import SIZES, describe
from tests.fixtures.tiny_bert import TEXTS
from tests.kernels.float_rows import same_bits

pytestmark = pytest.mark.slow
F32 = NDArray[np.float32]


def saved(directory: Path, kind: str, config: Any) -> Any:
    """A model with random weights, which are halves, and its directory."""
    import torch
    import transformers

    torch.manual_seed(3)
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for name, one in model.named_parameters():
            wide = 0.2 if one.dim() > 1 else 0.05
            one.copy_((torch.randn_like(one) * wide + (one if "norm" in name.lower() else 0)).half().float())
    model.save_pretrained(directory)
    return model


def hidden(model: Any, directory: Path, text: str) -> F32:
    import torch

    ids = Tokenizer.from_file(str(directory / "tokenizer.json"))
    ids.enable_truncation(SIZES["max_position_embeddings"])
    with torch.no_grad():
        found: F32 = model(torch.tensor([ids.encode(text).ids])).last_hidden_state[0].numpy()
    return found


def cosines(found: F32, expected: F32) -> F32:
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    result: F32 = (found * expected).sum(1) / lengths
    return result


def exported(directory: Path) -> Any:
    export_huggingface(directory, directory.parent / "bundle", name="twin")
    return load_encoder(directory.parent / "bundle", threads=1)


def same_alone(encoder: Any) -> F32:
    together: F32 = encoder.embed(TEXTS).vectors
    assert same_bits(together, np.concatenate([encoder.embed([text]).vectors for text in TEXTS]))
    return together


def test_qwen3_embedding(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.Qwen3Config(**SIZES, tie_word_embeddings=True)
    directory = tmp_path / "model"
    model = saved(directory, "Qwen3Model", config)
    describe(directory, prompts={"query": "why is ", "document": ""})
    encoder = exported(directory)
    expected = np.array([hidden(model, directory, text)[-1] for text in TEXTS])
    assert cosines(same_alone(encoder), expected).min() > 0.99999
    asked = encoder.embed(["the sky"], kind="query").vectors
    assert same_bits(asked, encoder.embed(["why is the sky"]).vectors)


@pytest.mark.parametrize("window", [4, 6])
def test_embeddinggemma(tmp_path: Path, window: int) -> None:
    transformers = pytest.importorskip("transformers")
    types = ["sliding_attention", "full_attention", "sliding_attention"]
    config = transformers.Gemma3TextConfig(
        **SIZES, sliding_window=window, layer_types=types, use_bidirectional_attention=True,
        query_pre_attn_scalar=32,
    )  # fmt: skip
    directory = tmp_path / "model"
    model = saved(directory, "Gemma3TextModel", config)
    linears = [(64, 128, "torch.nn.modules.linear.Identity"), (128, 64, "torch.nn.modules.linear.Identity")]
    first, second = describe(directory, pooling="mean_tokens", dense=linears)
    encoder = exported(directory)
    means = np.array([hidden(model, directory, text).mean(0) for text in TEXTS])
    assert cosines(same_alone(encoder), means @ first.T @ second.T).min() > 0.99999


def test_qwen3_reranker(tmp_path: Path) -> None:
    import torch

    transformers = pytest.importorskip("transformers")
    config = transformers.Qwen3Config(**{**SIZES, "max_position_embeddings": 256}, tie_word_embeddings=True)
    directory = tmp_path / "model"
    model = saved(directory, "Qwen3ForCausalLM", config)
    describe(directory)
    (directory / "modules.json").unlink()
    (directory / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Qwen3-Reranker-0.6B\n")
    encoder = exported(directory)
    documents = ["the cat sat on the mat .", "a dog", ""]
    found = encoder.rank("why is the sky blue", documents).vectors[:, 0]
    tokens = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokens.no_truncation()
    before, body, behind = RANKING
    answers = [tokens.token_to_id(word) for word in ("no", "yes")]
    for score, document in zip(found, documents, strict=True):
        middle = body.replace("{query}", "why is the sky blue").replace("{document}", document)
        parts = [tokens.encode(part, add_special_tokens=False).ids for part in (before, middle, behind)]
        ids = [one for part in parts for one in part]
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1, answers]
        assert abs(float(torch.softmax(logits, 0)[1]) - score) < 2e-3


@pytest.mark.parametrize("kind", ["Bert", "XLMRoberta"])
def test_the_bert_family(tmp_path: Path, kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {key: SIZES[key] for key in SIZES if key not in ("num_key_value_heads", "head_dim")}
    types = 2 if kind == "Bert" else 1
    config = getattr(transformers, f"{kind}Config")(
        **{**sizes, "max_position_embeddings": 66 if types == 1 else 64, "pad_token_id": 2 - types},
        type_vocab_size=types,
    )
    directory = tmp_path / "model"
    model = saved(directory, f"{kind}Model", config)
    describe(directory, pooling="cls_token")
    encoder = exported(directory)
    known = [text for text in TEXTS if "running" not in text]  # id 1 is an unknown word, and padding to one
    expected = np.array([hidden(model, directory, text)[0] for text in known])
    assert cosines(encoder.embed(known).vectors, expected).min() > 0.99999
    same_alone(encoder)


WINDOWED = {"local_attention": 8, "num_hidden_layers": 4, "cls_token_id": 2, "sep_token_id": 3}


@pytest.mark.parametrize("kind", ["ModernBert", "NomicBert"])
def test_encoders_that_rotate(tmp_path: Path, kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {key: SIZES[key] for key in SIZES if key not in ("num_key_value_heads", "head_dim")}
    more = {**WINDOWED, "bos_token_id": 2, "eos_token_id": 3} if kind == "ModernBert" else {}
    config = getattr(transformers, f"{kind}Config")(**{**sizes, **more})
    directory = tmp_path / "model"
    model = saved(directory, f"{kind}Model", config)
    describe(directory, pooling="mean_tokens")
    expected = np.array([hidden(model, directory, text).mean(0) for text in TEXTS])
    assert cosines(same_alone(exported(directory)), expected).min() > 0.99999


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_a_modernbert_reranker(tmp_path: Path, pooling: str) -> None:
    import torch

    transformers = pytest.importorskip("transformers")
    sizes = {key: SIZES[key] for key in SIZES if key not in ("num_key_value_heads", "head_dim")}
    config = transformers.ModernBertConfig(
        **{**sizes, **WINDOWED, "bos_token_id": 2, "eos_token_id": 3},
        num_labels=1,
        classifier_pooling=pooling,
    )
    directory = tmp_path / "model"
    model = saved(directory, "ModernBertForSequenceClassification", config)
    describe(directory)
    (directory / "modules.json").unlink()
    documents = ["the cat sat on the mat .", "a dog", ""]
    found = exported(directory).rank("why is the sky blue", documents).vectors[:, 0]
    tokens = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokens.no_truncation()
    for score, document in zip(found, documents, strict=True):
        with torch.no_grad():
            logit = model(torch.tensor([tokens.encode("why is the sky blue", document).ids])).logits[0, 0]
        assert abs(float(torch.sigmoid(logit)) - score) < 1e-3
