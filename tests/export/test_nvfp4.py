"""NVFP4 tensors of GGUF files: their scales lie in tensors of their own, which become part of the weights.

Other projects went wrong where the scale was lost (of experts, of layers that predict), where it went
in after the bias, and where it has another name. Rows need be no multiple of a block of ours.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import quants

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.export import export_gguf
from edgedec.export.gguf_header import TensorInfo
from edgedec.export.gguf_source import open_gguf
from edgedec.export.gguf_writer import copied
from edgedec.export.stored import GraphWeights
from edgedec.kernels.packing.experts import expert_places
from edgedec.kernels.packing.formats import FORMATS
from edgedec.kernels.packing.layout import dequantise
from tests.fixtures.tiny_experts import ExpertShape
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import DeltaShape
from tests.reference.graph import graph_logits
from tests.reference.model import reference_logits

TOKENS = [3, 9, 270, 41, 5, 5, 100, 17]
RAGGED = TinyShape(hidden=64, ffn=320)
"""Rows of a quarter of a block of 256 inputs, and of a block and a quarter."""


def scaled(gguf: Path, scale: float, name: str = "{}.scale") -> dict[str, np.ndarray[Any, Any]]:
    """Another scale for each NVFP4 tensor of a file."""
    with open_gguf(gguf) as source:
        names = [tensor.name for tensor in source.tensors.values() if tensor.format == "nvfp4"]
    stems = [one.removesuffix(".weight") for one in names]
    return {name.format(stem): np.array([scale * (1 + i)], np.float32) for i, stem in enumerate(stems)}


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gemma3", "phi3"])
def test_a_scale_of_the_matrix_multiplies_before_biases(architecture: str, tmp_path: Path) -> None:
    """qwen2 has biases, phi3 several matrices in one tensor, and the head of all is the embedding."""
    options: dict[str, Any] = {"formats": "nvfp4", "shape": RAGGED}
    plain = write_tiny(tmp_path / "plain.gguf", architecture, **options)
    extra = scaled(plain, 0.37)
    gguf = write_tiny(tmp_path / "m.gguf", architecture, **options, extra_tensors=extra)
    export_gguf(gguf, tmp_path / "bundle")
    expected = reference_logits(gguf, TOKENS)
    assert np.abs(expected - reference_logits(plain, TOKENS)).max() > 0.1
    got = graph_logits(tmp_path / "bundle", TOKENS)
    np.testing.assert_allclose(got, expected, atol=2e-4 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["{}.scale", "{}.weight.scale"])
def test_weights_are_those_of_ggml_times_the_scale(name: str, tmp_path: Path) -> None:
    plain = write_tiny(tmp_path / "plain.gguf", formats="nvfp4", shape=RAGGED)
    extra = scaled(plain, 0.25, name)
    inputs = {key.replace(".scale", ".input_scale"): np.array([9.0], np.float32) for key in extra}
    gguf = write_tiny(tmp_path / "m.gguf", formats="nvfp4", shape=RAGGED, extra_tensors=extra | inputs)
    export_gguf(gguf, tmp_path / "bundle")
    stored = GraphWeights(tmp_path / "bundle", "model.onnx").matrices
    with open_gguf(plain) as source:
        tensor = source.tensors["blk.1.ffn_down.weight"]
        values = quants.dequantize(source.rows(tensor, 0, tensor.rows), tensor.type)
        factor = extra[name.format("blk.1.ffn_down")][0]
        assert factor not in (0.25, 0.5, 1.0)
        got = stored["blk.1.ffn_down.weight"].read(0, tensor.rows)
        np.testing.assert_allclose(got, values * factor, rtol=2.5e-7)
        first = source.tensors["token_embd.weight"]  # times a power of two: no bit may differ
        values = quants.dequantize(source.rows(first, 0, first.rows), first.type).astype(np.float32)
        got = stored["token_embd.weight"].read(0, first.rows)
        np.testing.assert_array_equal(got.view(np.uint32), (values * np.float32(0.25)).view(np.uint32))


def with_raised_scales(gguf: Path, by: int) -> Path:
    """The file itself, its scales in blocks normal numbers and then times 2^by."""
    data = bytearray(gguf.read_bytes())
    with open_gguf(gguf) as source:
        for tensor in source.tensors.values():
            if tensor.format == "nvfp4":
                raw = np.frombuffer(data, np.uint8, tensor.nbytes, tensor.offset).reshape(-1, 36).copy()
                raw[:, :4] = np.maximum(raw[:, :4], 8) + 8 * by
                data[tensor.offset : tensor.offset + tensor.nbytes] = raw.tobytes()
    gguf.write_bytes(data)
    return gguf


def test_a_power_of_two_is_the_same_in_either_place(tmp_path: Path) -> None:
    """A file whose blocks are twice as large has the logits of one that states 2 beside them."""
    options: dict[str, Any] = {"formats": {"*": "q8_0", "ffn_down": "nvfp4"}, "shape": RAGGED}
    extra = {f"blk.{layer}.ffn_down.scale": np.array([2.0], np.float32) for layer in range(2)}
    stated = write_tiny(tmp_path / "stated.gguf", **options, extra_tensors=extra)
    doubled = write_tiny(tmp_path / "doubled.gguf", **options)
    found = []
    for gguf in (with_raised_scales(stated, 0), with_raised_scales(doubled, 1)):
        export_gguf(gguf, tmp_path / gguf.stem)
        found.append(graph_logits(tmp_path / gguf.stem, TOKENS))
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("each", [True, False])
def test_experts_have_a_scale_each_or_one_together(each: bool, tmp_path: Path) -> None:
    shape = TinyShape(hidden=64, ffn=64, experts=ExpertShape(count=5, width=64))
    formats = {"*": "q8_0", **{f"ffn_{part}_exps": "nvfp4" for part in ("gate", "up", "down")}}
    draw = np.random.default_rng(5)
    extra = {
        f"blk.{layer}.ffn_{part}_exps.scale": draw.uniform(0.5, 2, 5 if each else 1).astype(np.float32)
        for layer in range(2)
        for part in ("gate", "up", "down")
    }
    gguf = write_tiny(tmp_path / "m.gguf", "qwen3moe", formats=formats, shape=shape, extra_tensors=extra)
    export_gguf(gguf, tmp_path / "bundle")
    stored = GraphWeights(tmp_path / "bundle", "model.onnx").experts["blk.1.ffn_exps.weight"]
    places = expert_places(("nvfp4",) * 3, 64, 64)
    tiles, size = FORMATS["nvfp4"].packed_shape(64, 64)
    with open_gguf(gguf) as source:
        for part, at in zip(("gate", "up", "down"), places[:3], strict=True):
            tensor = source.tensors[f"blk.1.ffn_{part}_exps.weight"]
            for expert in range(5):
                raw = source.rows(tensor, 64 * expert, 64 * expert + 64)
                factor = extra[f"blk.1.ffn_{part}_exps.scale"][expert if each else 0]
                packed = stored.packed[expert, at : at + tiles * size].reshape(tiles, size)
                got = dequantise("nvfp4", packed, 64, 64)
                np.testing.assert_allclose(got, quants.dequantize(raw, tensor.type) * factor, rtol=2.5e-7)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones(3, np.float32), r"blk\.0\.attn_q\.scale has shape \[3\], not \[1\]"),
        (np.array([np.nan], np.float32), r"blk\.0\.attn_q\.scale holds scales that are not finite"),
        (np.array([-1.7e38], np.float32), r"blk\.0\.attn_q\.scale holds scales that are .* too large"),
    ],
)
def test_scales_that_do_not_fit_are_refused(
    values: np.ndarray[Any, Any], message: str, tmp_path: Path
) -> None:
    extra = {"blk.0.attn_q.scale": values}
    gguf = write_tiny(tmp_path / "m.gguf", formats="nvfp4", shape=RAGGED, extra_tensors=extra)
    with pytest.raises(BadFileError, match=message):
        export_gguf(gguf, tmp_path / "bundle")


def test_a_scale_of_another_type_is_not_ignored(tmp_path: Path) -> None:
    extra = {"blk.0.attn_q.scale": np.array([2.0], np.float32)}
    gguf = write_tiny(tmp_path / "m.gguf", formats="q8_0", extra_tensors=extra)
    with pytest.raises(
        UnsupportedError, match=r"'blk\.0\.attn_q\.scale', which its architecture does not use"
    ):
        export_gguf(gguf, tmp_path / "bundle", backend="edgedec")


def test_a_copy_never_loses_a_scale(tmp_path: Path) -> None:
    extra = {"blk.0.attn_q.scale": np.array([2.0], np.float32)}
    gguf = write_tiny(tmp_path / "m.gguf", formats="nvfp4", shape=RAGGED, extra_tensors=extra)
    with open_gguf(gguf) as source:
        assert copied(source, source.tensors["blk.1.attn_q.weight"]).format == "nvfp4"
        with pytest.raises(UnsupportedError, match="with a scale of its own"):
            copied(source, source.tensors["blk.0.attn_q.weight"])


def test_the_scale_of_a_row_is_that_of_its_expert() -> None:
    tensor = TensorInfo.unwritten("w", (3, 8, 64), "nvfp4")
    assert tensor.scale(23) == 1
    numbers = TensorInfo(tensor.name, tensor.type, tensor.shape, 0, tensor.nbytes, (1.0, 2.0, 3.0))
    assert [numbers.scale(row) for row in (0, 7, 8, 15, 16, 23)] == [1, 1, 2, 2, 3, 3]


def test_a_layer_that_predicts_keeps_its_scale(tmp_path: Path) -> None:
    shape = TinyShape(hidden=64, ffn=64, layers=2, delta=DeltaShape(period=2, nextn=1))
    stem = "blk.2.nextn.eh_proj"
    extra = {f"{stem}.{name}": np.array([2.0], np.float32) for name in ("scale", "input_scale")}
    formats = {"*": "q8_0", "eh_proj": "nvfp4"}
    gguf = write_tiny(tmp_path / "m.gguf", "qwen35", formats=formats, shape=shape, extra_tensors=extra)
    export_gguf(gguf, tmp_path / "bundle")
    stored = GraphWeights(tmp_path / "bundle" / "drafters" / "mtp", "mtp.onnx")
    with open_gguf(gguf) as source:
        tensor = source.tensors[f"{stem}.weight"]
        values = quants.dequantize(source.rows(tensor, 0, tensor.rows), tensor.type)
    got = stored.matrices["blk.0.nextn.eh_proj.weight"].read(0, tensor.rows)
    np.testing.assert_array_equal(got, 2 * values)
