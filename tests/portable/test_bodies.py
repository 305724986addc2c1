"""Bodies of single ops against the definitions in ``kernels/packing/layout.py`` and NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import helper

from edgedec.core.errors import UnsupportedError
from edgedec.export.model import DOMAIN, IR_VERSION, OPSET
from edgedec.export.passes import PassError, run_passes
from edgedec.export.passes.attach_bodies import AttachBodies
from edgedec.export.portable import attach_bodies
from edgedec.export.portable.decode import UNPACKABLE
from edgedec.export.portable.floats import HALF, half_function
from edgedec.kernels.packing.layout import FORMATS, dequantise, pack
from tests.export.graphs import make, node
from tests.fixtures.random_rows import random_rows
from tests.portable.runner import options

Array = NDArray[Any]


def run(chosen: onnx.NodeProto, functions: list[onnx.FunctionProto], **inputs: Array) -> list[Array]:
    """The outputs of one node in a session without kernels."""
    graph = helper.make_graph(
        [chosen],
        "one",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for name, a in inputs.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in chosen.output],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=IR_VERSION)
    session = ort.InferenceSession(model.SerializeToString(), options(), providers=["CPUExecutionProvider"])
    outputs: list[Array] = session.run(None, inputs)
    return outputs


def run_op(chosen: onnx.NodeProto, **inputs: Array) -> list[Array]:
    return run(chosen, attach_bodies([chosen]), **inputs)


def random_matrix(format: str, rows: int, cols: int, seed: int = 0) -> tuple[Array, Array]:
    """(packed, dequantised) random weights."""
    raw = random_rows(format, rows, cols, seed)
    packed = pack(format, raw)
    return packed, dequantise(format, packed, rows, cols)


def test_every_weight_format_can_be_unpacked() -> None:
    assert FORMATS.keys() == UNPACKABLE


def test_every_fp16_number_is_read_from_its_bytes() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    low, high = (bits & 255).astype(np.uint8), (bits >> 8).astype(np.uint8)
    chosen = helper.make_node(HALF, ["low", "high"], ["value"], domain=DOMAIN)
    (got,) = run(chosen, [half_function()], low=low, high=high)
    expected = bits.view(np.float16).astype(np.float32)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(got[finite], expected[finite])
    assert not np.isfinite(got[~finite]).any()


@pytest.mark.parametrize("format", FORMATS)
def test_weights_are_decoded_bit_for_bit(format: str) -> None:
    rows, cols = 40, 512 if FORMATS[format].block == 256 else 96
    packed, expected = random_matrix(format, rows, cols)
    attrs = {"format": format, "rows": rows, "cols": cols}
    ids = np.arange(rows, dtype=np.int64)[::-1].copy()
    embedding = node("QuantEmbedding", "y", "ids", "w", **attrs, scale=1.0)
    (got,) = run_op(embedding, ids=ids, w=packed)
    np.testing.assert_array_equal(got, expected[::-1])
    linear = node("QuantLinear", "y", "x", "", "", "w", formats=format, rows=[rows], cols=cols, terms=1)
    (got,) = run_op(linear, x=np.eye(cols, dtype=np.float32), w=packed)
    np.testing.assert_array_equal(got, expected.T)


@pytest.mark.parametrize("formats", ["q4_1,q8_0", "q4_1,q4_1"])
@pytest.mark.parametrize("sizes", [[24, 16], [32, 24]])
def test_a_linear_joins_its_weights_and_adds_bias_and_residual(formats: str, sizes: list[int]) -> None:
    """Matrices of one format are joined while they are packed, but not behind one with padding."""
    first, second = formats.split(",")
    (a, wa), (b, wb) = random_matrix(first, sizes[0], 96), random_matrix(second, sizes[1], 96, 1)
    rng, rows = np.random.default_rng(2), sum(sizes)
    x, residual = rng.standard_normal((3, 96), np.float32), rng.standard_normal((3, rows), np.float32)
    bias = rng.standard_normal(rows, np.float32)
    attrs: Mapping[str, Any] = {"formats": formats, "rows": sizes, "cols": 96, "terms": 2}
    chosen = node("QuantLinear", "y", "x", "bias", "residual", "a", "b", **attrs)
    unpacked = [n for f in attach_bodies([chosen])[:1] for n in f.node if n.op_type.startswith("Unpack")]
    assert len(unpacked) == (1 if first == second and sizes[0] % 16 == 0 else 2)
    (got,) = run_op(chosen, x=x, bias=bias, residual=residual, a=a, b=b)
    np.testing.assert_allclose(got, x @ np.concatenate([wa, wb]).T + bias + residual, atol=1e-4)


def test_angles_far_out_are_as_exact_as_near_ones() -> None:
    positions = np.array([0, 1, 4095, 131071], dtype=np.int64)
    frequencies = (1e4 ** -(np.arange(8) / 8)).astype(np.float32)
    (got,) = run_op(node("RotaryTable", "y", "p", "f"), p=positions, f=frequencies)
    angles = positions[:, None] * frequencies.astype(np.float64)
    np.testing.assert_allclose(got, np.concatenate([np.cos(angles), np.sin(angles)], axis=1), atol=1e-6)


def head(k: int, *inputs: str) -> onnx.NodeProto:
    outputs = ["values", "ids", "logsumexp", "entropy", "logits"]
    attrs = {"format": "q8_0", "rows": 40, "cols": 64, "k": k, "refine": 1}
    return helper.make_node("HeadTopK", list(inputs), outputs, domain=DOMAIN, **attrs)


@pytest.mark.parametrize("keep", [None, [3], [0, 5, 17, 39]])
@pytest.mark.parametrize("want", [0, 1])
@pytest.mark.parametrize("temperature", [None, 1.0, 0.3])
def test_the_head_sums_up_its_logits(keep: list[int] | None, want: int, temperature: float | None) -> None:
    packed, table = random_matrix("q8_0", 40, 64)
    x = np.random.default_rng(1).standard_normal((3, 64), np.float32)
    inputs = {"x": x, "w": packed, "want": np.array([want])}
    names = [*inputs, "keep" if keep else "", "temperature" if temperature else ""]
    inputs |= {"keep": np.array(keep)} if keep else {}
    inputs |= {"temperature": np.array([temperature], np.float32)} if temperature else {}
    values, ids, logsumexp, entropy, logits = run_op(head(6, *names), **inputs)
    kept = keep or list(range(40))
    expected = (x @ table.T).astype(np.float64)[:, kept]
    order = np.argsort(-expected, axis=1)[:, :6]
    there = order.shape[1]
    np.testing.assert_allclose(values[:, :there], np.take_along_axis(expected, order, 1), atol=1e-4)
    np.testing.assert_array_equal(ids[:, :there], np.array(kept)[order])
    assert (ids[:, there:] == -1).all()
    assert np.isneginf(values[:, there:]).all()
    warm = expected / (temperature or 1.0)
    shares = np.exp(warm) / np.exp(warm).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(logsumexp, np.log(np.exp(warm).sum(axis=1)), rtol=1e-5, atol=3e-4)
    np.testing.assert_allclose(entropy, -(shares * np.log(shares)).sum(axis=1), atol=1e-4)
    assert logits.shape == (3 * want, 40)
    np.testing.assert_allclose(logits[:, kept], expected[: 3 * want], atol=1e-4)


def test_what_has_no_body_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="op Novelty has no body"):
        attach_bodies([node("Novelty", "y", "x")])
    with pytest.raises(UnsupportedError, match="format iq1_s have no decoder"):
        attach_bodies([node("QuantEmbedding", "y", "x", "w", format="iq1_s", rows=16, cols=256)])


def test_nodes_alike_share_a_body() -> None:
    norms = [node("RMSNorm", name, "x", "w", epsilon=1e-6) for name in "ab"]
    other = node("RMSNorm", "c", "x", "w", "r", epsilon=1e-6)
    functions = attach_bodies([*norms, other])
    assert [(f.name, f.overload) for f in functions] == [("RMSNorm", "1"), ("RMSNorm", "2")]
    assert [n.overload for n in (*norms, other)] == ["1", "1", "2"]


def test_bodies_are_attached_once() -> None:
    model = make([node("RotaryTable", "y", "x", "x")], ["y"])
    assert run_passes(model, [AttachBodies()]) == ["AttachBodies"]
    with pytest.raises(PassError, match="already have bodies"):
        run_passes(model, [AttachBodies()])
