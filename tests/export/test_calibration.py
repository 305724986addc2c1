"""Searching for scales, the float run that weighs errors, and exports that use both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import quants
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import UsageError
from edgedec.export import export_huggingface
from edgedec.export.calibration.evaluate import F32, evaluate
from edgedec.export.calibration.moments import Moments, sample, second_moments
from edgedec.export.calibration.search import SEARCHED, quantise
from edgedec.export.graph import build_graph
from edgedec.export.huggingface.config import read_config
from edgedec.export.huggingface.files import read_object
from edgedec.export.huggingface.groups import parse_quant
from edgedec.export.huggingface.shards import read_shards, weight_files
from edgedec.export.huggingface.source import HuggingFaceSource
from edgedec.export.hyperparameters import read_hyperparameters
from edgedec.export.model import ExportModel, PackedWeight
from edgedec.export.tensors import Tensors
from tests.export.test_huggingface import SHAPES, TOKENS
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface
from tests.reference.model import reference_logits

TEXT = "the hello world and more of it, a sample that is long enough to say something. " * 12


def restored(blocks: NDArray[np.uint8], format: str) -> F32:
    values: F32 = quants.dequantize(blocks, GGMLQuantizationType[format.upper()])
    return values


def plain(values: F32, format: str) -> NDArray[np.uint8]:
    blocks: NDArray[np.uint8] = quants.quantize(values, GGMLQuantizationType[format.upper()])
    return blocks


def random_weights(seed: int = 0) -> tuple[F32, NDArray[np.float64]]:
    """A matrix [64, 256], and inputs of which some matter a hundred times as much as others."""
    rng = np.random.default_rng(seed)
    values = (rng.standard_t(5, (64, 256)) / 30).astype(np.float32)
    return values, rng.lognormal(0, 1.5, 256)


def errors(values: F32, blocks: NDArray[np.uint8], format: str, weights: NDArray[np.float64]) -> F32:
    """The weighted squared error of each group."""
    squares = weights * np.square(restored(blocks, format).astype(np.float64) - values)
    return np.asarray(squares.reshape(-1, 32).sum(axis=1), dtype=np.float32)


@pytest.mark.parametrize("format", SEARCHED)
def test_no_group_is_worse_than_plain_rounding_and_most_are_better(format: str) -> None:
    values, weights = random_weights()
    for importance in (None, weights):
        measure = np.ones(256) if importance is None else importance
        before = errors(values, plain(values, format), format, measure)
        after = errors(values, quantise(values, format, importance), format, measure)
        assert (after <= before * 1.00001).all()
        assert after.sum() < before.sum() * (0.95 if importance is None else 0.8)
        assert (after < before).mean() > 0.5


@pytest.mark.parametrize("format", SEARCHED)
def test_importance_lowers_the_weighted_error(format: str) -> None:
    values, weights = random_weights(1)
    without = errors(values, quantise(values, format), format, weights).sum()
    first = quantise(values, format, weights)
    assert errors(values, first, format, weights).sum() < 0.9 * without
    assert (first == quantise(values.copy(), format, weights * 3)).all(), "only ratios count"


@pytest.mark.parametrize("format", SEARCHED)
def test_what_a_format_can_represent_stays(format: str) -> None:
    values, weights = random_weights(2)
    exact = restored(plain(values, format), format)
    np.testing.assert_array_equal(restored(quantise(exact, format, weights), format), exact)


@pytest.mark.parametrize("format", SEARCHED)
@pytest.mark.parametrize("value", [0.0, 1e-9, -2e-7, 3.0, -60000.0])
def test_groups_of_one_value(format: str, value: float) -> None:
    """Zeros, scales below those of fp16, and no range at all."""
    values = np.full((2, 64), value, dtype=np.float32)
    values[1, ::2] = 0
    got = restored(quantise(values, format), format)
    np.testing.assert_allclose(got, values, rtol=2e-3, atol=1e-6 + 1e-3 * abs(value))


def test_inputs_that_the_sample_lacks_still_count() -> None:
    values, weights = random_weights(3)
    weights[::2] = 0
    got = restored(quantise(values, "q4_0", weights), "q4_0")
    assert np.abs(got - values)[:, ::2].max() < np.abs(values).max() / 2
    none = np.zeros(256)
    np.testing.assert_array_equal(quantise(values, "q4_0", none), quantise(values, "q4_0", np.ones(256)))


def opened(source: Path) -> tuple[HuggingFaceSource, ExportModel]:
    config = read_config(read_object(source / "config.json"))
    weights = HuggingFaceSource(source, config, read_shards(weight_files(source)), parse_quant("q4_0"))
    hyper = read_hyperparameters(config.architecture, config.metadata)
    return weights, build_graph(hyper, Tensors(weights))


def seen(source: HuggingFaceSource, model: ExportModel, windows: list[list[int]]) -> dict[str, F32]:
    """The last inputs of each tensor."""
    found: dict[str, F32] = {}

    def floats(weight: PackedWeight, start: int, stop: int) -> F32:
        return source.floats(weight.tensor, start, stop)

    def watch(weight: PackedWeight, x: F32) -> None:
        found[weight.tensor.name] = x.copy()

    evaluate(model, floats, windows, watch, lambda done, total: None)
    return found


@pytest.mark.parametrize("architecture", SHAPES)
def test_the_float_run_is_the_model(architecture: str, tmp_path: Path) -> None:
    """The head's inputs, times the head, are the logits of the reference; windows do not see each other."""
    gguf = write_tiny(tmp_path / "m.gguf", architecture, shape=SHAPES[architecture], tied=False)
    source, model = opened(
        write_huggingface(tmp_path / "source", gguf, config={"tie_word_embeddings": False})
    )
    found = seen(source, model, [TOKENS, TOKENS[:7], TOKENS[5:]])
    head = source.tensors["output.weight"]
    logits = found["output.weight"] @ source.floats(head, 0, head.shape[0]).T
    if cap := next((a.f for a in model.nodes[-1].attribute if a.name == "softcap"), 0.0):
        logits = cap * np.tanh(logits / cap)
    expected = np.concatenate([reference_logits(gguf, t) for t in (TOKENS, TOKENS[:7], TOKENS[5:])])
    np.testing.assert_allclose(logits, expected, atol=2e-4 * np.abs(expected).max())
    packed = {w.tensor.name for w in model.weights.values() if isinstance(w, PackedWeight)}
    assert set(found) == packed - {"token_embd.weight", "per_layer_token_embd.weight"}


def test_the_float_run_of_heads_that_are_rotated_in_part(tmp_path: Path) -> None:
    extra = {"phi3.rope.dimension_count": 12, "phi3.rope.scaling.attn_factor": 1.5}
    plain = write_tiny(tmp_path / "m.gguf", "phi3", tied=False)
    expected = write_tiny(tmp_path / "e.gguf", "phi3", tied=False, extra=extra)
    rope = {"type": "su", "short_factor": [1.0] * 6, "attention_factor": 1.5}
    config = {"tie_word_embeddings": False, "partial_rotary_factor": 0.75, "rope_scaling": rope}
    source, model = opened(write_huggingface(tmp_path / "source", plain, config=config))
    head = source.tensors["output.weight"]
    logits = seen(source, model, [TOKENS])["output.weight"] @ source.floats(head, 0, head.shape[0]).T
    wanted = reference_logits(expected, TOKENS)
    np.testing.assert_allclose(logits, wanted, atol=2e-4 * np.abs(wanted).max())


def moments(source: HuggingFaceSource, model: ExportModel, windows: list[list[int]]) -> Moments:
    return second_moments(
        model,
        lambda weight, start, stop: source.floats(weight.tensor, start, stop),
        windows,
        lambda done, total: None,
    )


@pytest.mark.parametrize("architecture", ["llama", "gemma3", "phi3"])
def test_calibration_lowers_the_weighted_error_of_every_matrix(architecture: str, tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "m.gguf", architecture, formats="f32", shape=SHAPES[architecture])
    source, model = opened(write_huggingface(tmp_path / "source", gguf))
    found = moments(source, model, [TOKENS, TOKENS[::-1]])
    inputs = seen(source, model, [TOKENS, TOKENS[::-1]])
    name = "blk.0.attn_output.weight"
    np.testing.assert_allclose(found[name], np.square(inputs[name]).mean(axis=0), rtol=1e-5)
    for name, mean_squares in found.items():
        tensor = source.tensors[name]
        values = source.floats(tensor, 0, tensor.shape[0])
        before = errors(values, quantise(values, "q4_0"), "q4_0", mean_squares).sum()
        after = errors(values, quantise(values, "q4_0", mean_squares), "q4_0", mean_squares).sum()
        assert after < before, name


def test_an_export_with_calibration(tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "m.gguf", "qwen3", formats="f32")
    source = write_huggingface(tmp_path / "source", gguf)
    stages: list[str] = []
    made = []
    for number, text in enumerate([TEXT, TEXT, None]):
        out = tmp_path / f"out{number}"
        export_huggingface(source, out, quant="q4_0", calibration=text, name="same",
                           progress=lambda stage, done, total: stages.append(stage))  # fmt: skip
        made.append((out / "weights.bin").read_bytes())
    assert made[0] == made[1]
    assert made[0] != made[2]
    assert list(dict.fromkeys(stages)) == ["calibration", "source", "weights"]
    about = Manifest.load(tmp_path / "out0", verify=True).source
    assert isinstance(about["calibration tokens"], int)
    assert about["calibration tokens"] > 64
    assert isinstance(about["sha256 of the calibration text"], str)
    assert not any("calibration" in key for key in Manifest.load(tmp_path / "out2").source)


def test_the_sample_comes_from_all_over_the_text(tmp_path: Path) -> None:
    source = write_huggingface(tmp_path / "source", write_tiny(tmp_path / "m.gguf", "qwen3"))
    text = (source / "tokenizer.json").read_text()
    windows = sample(TEXT * 30, text, 1, context=512)
    assert {len(window) for window in windows} == {512}
    assert all(window[0] == 1 for window in windows)
    assert len(windows) == 8
    short = sample(TEXT, text, None, context=100)
    assert {len(window) for window in short} == {100}
    with pytest.raises(UsageError, match="has 1 tokens"):
        sample("a", text, None, context=512)
