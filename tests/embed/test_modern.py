"""ModernBERT and NomicBERT: vectors and scores against NumPy, in batches, from directories and GGUF files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.embed.encoder import load_encoder
from edgedec.export import export_gguf, export_huggingface
from edgedec.export.encoders.modern import read_modern, read_nomic
from tests.fixtures.tiny_modern import MODERN, NOMIC, byte_tokenizer, write_modern, write_modern_gguf
from tests.kernels.float_rows import same_bits
from tests.reference.modern_bert import F64, gelu, modern_states, nomic_states, norm

TEXTS = ["the cat sat on the mat .", "why is the sky blue", "", "a", "the sky the cat " * 12, "cafe\u0301"]
RANKER = {**MODERN, "architectures": ["ModernBertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}
BOTH = pytest.mark.parametrize("config", [MODERN, NOMIC], ids=["modern", "nomic"])


def states(
    directory: Path, config: dict[str, Any], text: str, other: str | None = None, longest: int = 80
) -> F64:
    library = byte_tokenizer()
    library.enable_truncation(longest)
    tensors = load_file(directory / "model.safetensors")
    found = (modern_states if config["model_type"] == "modernbert" else nomic_states)(
        tensors, config, (library.encode(text, other) if other is not None else library.encode(text)).ids
    )
    return found


@BOTH
def test_vectors_are_those_of_the_definition(tmp_path: Path, config: dict[str, Any]) -> None:
    directory = write_modern(tmp_path / "model", config)
    export_huggingface(directory, tmp_path / "bundle", quant="f32,head=f32")
    found = load_encoder(tmp_path / "bundle", threads=1).embed(TEXTS)
    means = np.array([states(directory, config, text).mean(0) for text in TEXTS])
    expected = means / np.linalg.norm(means, axis=1, keepdims=True)
    assert found.cut == 1
    assert (found.vectors * expected).sum(1).min() > 0.999999
    np.testing.assert_allclose(found.vectors, expected, atol=1e-3)  # keys and values are halves


@BOTH
def test_sixty_four_together_have_the_bits_of_each_alone(tmp_path: Path, config: dict[str, Any]) -> None:
    export_huggingface(write_modern(tmp_path / "model", config), tmp_path / "bundle")
    encoder = load_encoder(tmp_path / "bundle", threads=2)
    # Windows of 4 tokens to each side lie across the borders of texts, of 2 tokens to all that fit.
    texts = [TEXTS[at % len(TEXTS)] + " cat" * (at % 7) for at in range(64)]
    together = encoder.embed(texts).vectors
    assert same_bits(together, np.concatenate([encoder.embed([text]).vectors for text in texts]))


def test_a_window_hides_what_is_further_away(tmp_path: Path) -> None:
    config = {**MODERN, "layer_types": ["sliding_attention"], "num_hidden_layers": 1}
    directory = write_modern(tmp_path / "model", config, pooling="cls_token")
    export_huggingface(directory, tmp_path / "bundle")
    encoder = load_encoder(tmp_path / "bundle", threads=1)
    ids = [1, *range(20, 30)]
    near, far = [*ids], [*ids]
    near[4], far[5] = 99, 99
    one, two, three = encoder.embed([ids, near, far]).vectors
    assert same_bits(one, three)
    assert np.abs(one - two).max() > 1e-4


@BOTH
@pytest.mark.parametrize(("number", "pooling"), [(1, "mean_tokens"), (2, "cls_token")])
def test_a_file_has_the_vectors_of_its_directory(
    tmp_path: Path, config: dict[str, Any], number: int, pooling: str
) -> None:
    directory = write_modern(tmp_path / "model", config, pooling=pooling)
    export_huggingface(directory, tmp_path / "from-directory")
    export_gguf(write_modern_gguf(directory, tmp_path / "tiny.gguf", pooling=number), tmp_path / "from-file")
    found = load_encoder(tmp_path / "from-file", threads=1).embed(TEXTS)
    expected = load_encoder(tmp_path / "from-directory", threads=1).embed(TEXTS)
    assert same_bits(found.vectors, expected.vectors)
    assert found.tokens == expected.tokens


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_scores_are_those_of_the_definition(tmp_path: Path, pooling: str) -> None:
    config = {**RANKER, "classifier_pooling": pooling}
    directory = write_modern(tmp_path / "model", config)
    export_huggingface(directory, tmp_path / "bundle", quant="f32,head=f32")
    tensors = load_file(directory / "model.safetensors")
    expected = []
    for text in TEXTS:
        x = states(directory, config, "why the sky", text)
        x = x.mean(0) if pooling == "mean" else x[0]
        x = norm(tensors, "head.norm", gelu(tensors["head.dense.weight"] @ x), config["norm_eps"])
        expected.append(1 / (1 + np.exp(-(tensors["classifier.weight"] @ x + tensors["classifier.bias"]))))
    found = load_encoder(tmp_path / "bundle").rank("why the sky", TEXTS)
    np.testing.assert_allclose(found.vectors, expected, atol=1e-3)


@pytest.mark.parametrize("stated", [4, None])
def test_a_rerankers_file_has_the_scores_of_its_directory(tmp_path: Path, stated: int | None) -> None:
    directory = write_modern(tmp_path / "model", {**RANKER, "classifier_pooling": "mean"})
    export_huggingface(directory, tmp_path / "from-directory")
    export_gguf(write_modern_gguf(directory, tmp_path / "tiny.gguf", pooling=stated), tmp_path / "from-file")
    found = load_encoder(tmp_path / "from-file").rank("why the sky", TEXTS).vectors
    expected = load_encoder(tmp_path / "from-directory").rank("why the sky", TEXTS).vectors
    np.testing.assert_allclose(found, expected, atol=1e-3)  # two small matrices are halves in the file


def test_masked_words_are_another_task(tmp_path: Path) -> None:
    directory = write_modern(tmp_path / "model", MODERN)
    export_huggingface(directory, tmp_path / "plain")
    tensors = load_file(directory / "model.safetensors")
    whole = {f"model.{name}": one for name, one in tensors.items()}
    whole |= {"head.dense.weight": np.eye(64, dtype=np.float32), "head.norm.weight": np.ones(64, np.float32)}
    whole["decoder.bias"] = np.zeros(MODERN["vocab_size"], np.float32)
    save_file(whole, directory / "model.safetensors")
    export_huggingface(directory, tmp_path / "masked")
    found = [load_encoder(tmp_path / name).embed(TEXTS).vectors for name in ("plain", "masked")]
    assert same_bits(*found)


def test_old_and_new_forms_of_config_mean_the_same() -> None:
    new = {key: value for key, value in MODERN.items() if "global" not in key and "theta" not in key}
    new["layer_types"] = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]
    bases = {"full_attention": 160000.0, "sliding_attention": 10000.0}
    new["rope_parameters"] = {kind: {"rope_theta": base} for kind, base in bases.items()}
    assert read_modern(new) == read_modern(MODERN)
    usual = {key: value for key, value in new.items() if key != "rope_parameters"}
    assert read_modern(usual) == read_modern(MODERN)
    same = read_modern({**MODERN, "local_rope_theta": None}).rotations
    assert same is not None
    assert same.local_base == same.base
    plain = {"model_type": "nomic_bert", "vocab_size": NOMIC["vocab_size"], "hidden_size": 64,
             "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 96,
             "max_position_embeddings": 80, "rope_parameters": {"rope_theta": 1000.0}}  # fmt: skip
    assert read_nomic(plain) == read_nomic(NOMIC)
    assert read_nomic({**NOMIC, "n_positions": 8192}).positions == 2048


@pytest.mark.parametrize(("config", "more", "message"), [
    (MODERN, {"mlp_bias": True}, "biases in its MLP"),
    (MODERN, {"hidden_activation": "mish"}, "the activation 'mish'"),
    (MODERN, {"layer_types": ["full_attention"]}, "layer_types"),
    (MODERN, {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "form 'yarn'"),
    (NOMIC, {"moe_every_n_layers": 2}, "with experts"),
    (NOMIC, {"activation_function": "gelu"}, "the activation 'gelu'"),
    (NOMIC, {"rotary_emb_fraction": 0.5}, "rotary_emb_fraction 0.5"),
    (NOMIC, {"architectures": ["NomicBertForSequenceClassification"]}, "into classes"),
])  # fmt: skip
def test_other_models_of_their_kind_are_refused(
    config: dict[str, Any], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        (read_modern if config is MODERN else read_nomic)({**config, **more})


def test_a_file_without_a_pooling_is_refused_in_one_line(tmp_path: Path) -> None:
    directory = write_modern(tmp_path / "model", MODERN)
    gguf = write_modern_gguf(directory, tmp_path / "tiny.gguf", pooling=None)
    with pytest.raises(UnsupportedError, match="states no pooling"):
        export_gguf(gguf, tmp_path / "bundle")


def test_prompts_that_are_no_object_are_a_bad_file(tmp_path: Path) -> None:
    directory = write_modern(tmp_path / "model", MODERN)
    (directory / "config_sentence_transformers.json").write_text('{"prompts": [1]}')
    with pytest.raises(BadFileError, match=r"prompts in config_sentence_transformers\.json is no object"):
        export_huggingface(directory, tmp_path / "bundle")


@pytest.mark.parametrize("place", ["../x", "x" * 5000, ["x"] * 2000])
def test_a_module_lies_in_the_directory(tmp_path: Path, place: object) -> None:
    directory = write_modern(tmp_path / "model", MODERN)
    modules = [{"type": "x.Pooling", "path": place}]
    (directory / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(BadFileError, match="which is no folder of the model's directory"):
        export_huggingface(directory, tmp_path / "bundle")


@BOTH
def test_a_text_may_be_longer_than_a_batch(tmp_path: Path, config: dict[str, Any]) -> None:
    longer = {**config, "max_position_embeddings": 2048, "n_positions": 2048}
    directory = write_modern(tmp_path / "model", longer)
    export_huggingface(directory, tmp_path / "bundle", quant="f32,head=f32")
    encoder, text = load_encoder(tmp_path / "bundle"), "1" * 1300
    assert encoder.plan.tokens < 1302 < encoder.context
    mean = states(directory, longer, text, longest=2048).mean(0)
    found = encoder.embed([text, "the cat"])
    assert found.cut == 0
    assert found.vectors[0] @ mean / np.linalg.norm(mean) > 0.999999
    assert same_bits(found.vectors[1], encoder.embed(["the cat"]).vectors[0])
