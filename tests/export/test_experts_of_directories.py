"""Models with experts in Hugging Face directories: the same graph and weights as of a GGUF file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.core.errors import BadFileError, EdgeDecError, UnsupportedError
from edgedec.export import export_huggingface
from edgedec.export.architectures import ARCHITECTURES
from edgedec.export.calibration.moments import second_moments
from edgedec.export.gguf_source import open_gguf
from edgedec.export.graph import build_graph
from edgedec.export.huggingface.exporter import ReadModel, read_model
from edgedec.export.huggingface.groups import parse_quant
from edgedec.export.hyperparameters import read_hyperparameters
from edgedec.export.model import ExportModel, VectorWeight
from edgedec.export.passes import DEFAULT_PASSES, run_passes
from edgedec.export.source import WeightSource
from edgedec.export.tensors import Tensors
from edgedec.export.writer import BundleWriter
from tests.export.test_experts import shape_of
from tests.fixtures.tiny_experts import BASES, stated
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface


def written(tmp_path: Path, architecture: str, **options: Any) -> tuple[Path, Path]:
    """A GGUF file and a directory of one model."""
    gguf = write_tiny(tmp_path / "m.gguf", architecture, shape=shape_of(architecture))
    return gguf, write_huggingface(tmp_path / "source", gguf, **options)


def edit(directory: Path, **changes: Any) -> None:
    path = directory / "config.json"
    fields = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in fields.items() if value is not None}))


def read(directory: Path) -> ReadModel:
    return read_model(directory, parse_quant("q8_0"))


def weights_of(model: ExportModel, source: WeightSource, folder: Path) -> bytes:
    folder.mkdir()
    run_passes(model, DEFAULT_PASSES)
    BundleWriter(folder, {}).weights(model, source, lambda *_: None)
    return (folder / "weights.bin").read_bytes()


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("architecture", BASES)
def test_weights_are_those_of_the_gguf_file(architecture: str, stacked: bool, tmp_path: Path) -> None:
    """Whether a tensor holds one matrix of one expert or those of all."""
    gguf, directory = written(tmp_path, architecture, stacked=stacked, shards=1 if stacked else 3)
    found = read(directory)
    model = build_graph(found.hyper, Tensors(found.weights))
    theirs = weights_of(model, found.weights, tmp_path / "theirs")
    with open_gguf(gguf) as source:
        hyper = read_hyperparameters(ARCHITECTURES[stated(architecture)], source.metadata)
        other = build_graph(hyper, Tensors(source))
        ours = weights_of(other, source, tmp_path / "ours")
    assert found.hyper.experts == hyper.experts
    assert model.placements == other.placements
    for name, start in model.placements.items():
        weight = model.weights[name]
        if architecture == "granitemoe" and (".attn_q." in name or ".attn_k." in name):
            continue  # their rows lie in another order in its GGUF file
        mine, its = ours[start : start + weight.nbytes], theirs[start : start + weight.nbytes]
        if isinstance(weight, VectorWeight):
            np.testing.assert_allclose(np.frombuffer(mine, "<f4"), np.frombuffer(its, "<f4"), rtol=1e-6)
        else:
            assert mine == its, name


def test_a_router_keeps_its_type(tmp_path: Path) -> None:
    for dtype, format in (("F32", "f32"), ("BF16", "bf16"), ("F16", "f16")):
        folder = tmp_path / dtype
        folder.mkdir()
        _, directory = written(folder, "qwen35moe", dtype=dtype)
        found = read_model(directory, parse_quant("q4_0")).weights.tensors
        assert found["blk.0.ffn_gate_inp.weight"].format == format
        assert found["blk.0.ffn_gate_inp_shexp.weight"].format == format
        assert found["blk.0.ffn_up_exps.weight"].format == "q4_0"


def test_dense_layers_come_first(tmp_path: Path) -> None:
    _, directory = written(tmp_path, "qwen3moe")
    edit(directory, mlp_only_layers=[0])
    assert read(directory).hyper.experts.dense == 1  # type: ignore[union-attr]
    edit(directory, mlp_only_layers=[1])
    with pytest.raises(UnsupportedError, match=r"layers without experts .* are not the first ones"):
        read(directory)


def test_both_names_of_the_number_of_experts(tmp_path: Path) -> None:
    """transformers 5 saves the one, makers publish the other."""
    _, directory = written(tmp_path, "qwen3moe")
    edit(directory, num_experts=None, num_local_experts=6)
    assert read(directory).hyper.experts.count == 6  # type: ignore[union-attr]


def test_a_model_that_sees_is_read_as_its_text_part(tmp_path: Path) -> None:
    _, directory = written(tmp_path, "qwen35moe")
    inner = json.loads((directory / "config.json").read_text())
    outer = {"model_type": "qwen3_5_moe", "text_config": inner, "tie_word_embeddings": True}
    (directory / "config.json").write_text(json.dumps(outer))
    assert read(directory).hyper.architecture.name == "qwen35moe"


@pytest.mark.parametrize("architecture", ["qwen3moe", "lfm2moe", "qwen35moe"])
def test_an_expert_that_lacks_is_named(architecture: str, tmp_path: Path) -> None:
    part = "feed_forward.experts.3.w3" if architecture == "lfm2moe" else "mlp.experts.3.up_proj"
    name = f"model.layers.1.{part}.weight"
    _, directory = written(tmp_path, architecture, tensors={name: None})
    with pytest.raises(BadFileError, match=f"lacks tensor {name}"):
        read(directory)


@pytest.mark.parametrize(
    ("architecture", "changes", "error", "message"),
    [
        ("qwen3moe", {"num_experts": None}, BadFileError, "lacks num_local_experts"),
        ("qwen3moe", {"num_experts": 5}, BadFileError, "mlp.gate.weight has shape"),
        ("qwen3moe", {"num_experts_per_tok": 7}, BadFileError, "chooses 7 of 6 experts"),
        (
            "qwen3moe",
            {"moe_intermediate_size": 64},
            BadFileError,
            r"mlp.experts.\*.gate_proj.weight has shape",
        ),
        ("qwen3moe", {"use_sliding_window": True}, UnsupportedError, "sliding window"),
        ("lfm2moe", {"num_dense_layers": 3}, BadFileError, "3 layers, of which 3 have no experts"),
        ("lfm2moe", {"use_expert_bias": False}, UnsupportedError, "expert_bias"),
        ("lfm2moe", {"routed_scaling_factor": 0}, BadFileError, "routed_scaling_factor .* is 0"),
        ("gemma4moe", {"top_k_experts": 7}, BadFileError, "chooses 7 of 6 experts"),
        ("gemma4moe", {"top_k_experts": None}, BadFileError, "lacks top_k_experts"),
        ("gemma4moe", {"num_experts": 5}, BadFileError, "router.proj.weight has shape"),
        ("gemma4moe", {"enable_moe_block": False}, UnsupportedError, "does not use"),
        ("granitemoe", {"residual_multiplier": 0}, BadFileError, "residual_multiplier .* is 0"),
        (
            "qwen35moe",
            {"shared_expert_intermediate_size": 32},
            BadFileError,
            "shared_expert.gate_proj.weight has",
        ),
    ],
)
def test_refused(
    architecture: str, changes: dict[str, Any], error: type[EdgeDecError], message: str, tmp_path: Path
) -> None:
    _, directory = written(tmp_path, architecture)
    edit(directory, **changes)
    with pytest.raises(error, match=message):
        export_huggingface(directory, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_experts_of_different_sizes(tmp_path: Path) -> None:
    odd = {"model.layers.0.mlp.experts.2.up_proj.weight": np.zeros((64, 64), np.float32)}
    _, directory = written(tmp_path, "qwen3moe", tensors=odd)
    with pytest.raises(UnsupportedError, match="are not matrices of one size"):
        read(directory)


def test_calibration_measures_the_inputs_of_experts(tmp_path: Path) -> None:
    """Those of the tokens that choose them alone, over all experts of a tensor."""
    _, directory = written(tmp_path, "lfm2moe")
    found = read(directory)
    weights = found.weights
    moments = second_moments(
        build_graph(found.hyper, Tensors(weights)),
        lambda weight, start, stop: weights.floats(weight.tensor, start, stop),
        [[3, 9, 70, 41, 5, 5, 100, 17], [8, 64, 2]],
        lambda *_: None,
    )
    sizes = {"ffn_gate_inp": 64, "ffn_gate_exps": 64, "ffn_up_exps": 64, "ffn_down_exps": 32}
    for role, size in sizes.items():
        measured = moments[f"blk.1.{role}.weight"]
        assert measured.shape == (size,)
        assert (measured > 0).all()
    np.testing.assert_array_equal(moments["blk.1.ffn_gate_exps.weight"], moments["blk.1.ffn_up_exps.weight"])
    assert not np.allclose(moments["blk.1.ffn_gate_exps.weight"], 0)
