"""Bodies of the ops of encoders against the kernels, and attention of whole texts against its definition."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import helper

from edgedec.export.model import DOMAIN, IR_VERSION, OPSET
from edgedec.export.portable import attach_bodies
from tests.export.graphs import node
from tests.portable.runner import options

Array = NDArray[Any]
RNG = np.random.default_rng(1)
OFFSETS = np.array([0, 3, 4, 21, 60], np.int64)
TOKENS = int(OFFSETS[-1])


def floats(*shape: int) -> NDArray[np.float32]:
    return RNG.standard_normal(shape).astype(np.float32)


def results(one: onnx.NodeProto, *, kernels: bool, **inputs: Array) -> Array:
    functions = attach_bodies([one])  # names the bodies in the node
    kinds = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in inputs.items()}
    values = [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()]
    output = helper.make_tensor_value_info(one.output[0], 1, None)
    graph = helper.make_graph([one], "one", values, [output])
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=IR_VERSION)
    session = ort.InferenceSession(
        model.SerializeToString(), options(kernels=kernels), providers=["CPUExecutionProvider"]
    )
    found: Array = session.run(None, inputs)[0]
    return found


def both(one: onnx.NodeProto, **inputs: Array) -> tuple[Array, Array]:
    copy = onnx.NodeProto()
    copy.CopyFrom(one)
    return results(one, kernels=True, **inputs), results(copy, kernels=False, **inputs)


def test_layer_norms() -> None:
    inputs = {"x": floats(5, 48), "w": floats(48), "b": floats(48), "a": floats(5, 48)}
    for names in (["x", "w"], ["x", "w", "b"], ["x", "w", "", "a"], ["x", "w", "b", "a"]):
        one = node("LayerNorm", "y", *names, epsilon=1e-6)
        ours, body = both(one, **{name: inputs[name] for name in names if name})
        np.testing.assert_allclose(ours, body, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("function", ["gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "relu"])
def test_activations(function: str) -> None:
    for names in (["x"], ["x", "f"]):
        one = node("Activate", "y", *names, function=function)
        ours, body = both(one, **{name: floats(3, 33) * 3 for name in names})
        np.testing.assert_allclose(ours, body, atol=3e-6)


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_pooling(pooling: str) -> None:
    one = node("Pool", "y", "x", "o", pooling=pooling)
    ours, body = both(one, x=floats(TOKENS, 33), o=OFFSETS)
    assert ours.shape == (len(OFFSETS) - 1, 33)
    np.testing.assert_allclose(ours, body, atol=1e-5)


def attention_of(qkv: Array, heads: int, kv_heads: int, dim: int, before: int, after: int) -> Array:
    """The definition, in float64: no rotation, keys and values in half precision."""
    parts = qkv.reshape(len(qkv), -1, dim)
    q, k, v = np.split(parts, [heads, heads + kv_heads], axis=1)
    k, v = (one.astype(np.float16).astype(np.float64) for one in (k, v))
    out = np.zeros((len(qkv), heads, dim))
    for first, end in pairwise(OFFSETS):
        for m in range(first, end):
            low = max(first, m - before) if before >= 0 else first
            high = min(end, m + after + 1) if after >= 0 else end
            for h in range(heads):
                kv = h // (heads // kv_heads)
                scores = k[low:high, kv] @ q[m, h].astype(np.float64) * 0.25
                weights = np.exp(scores - scores.max())
                out[m, h] = weights @ v[low:high, kv] / weights.sum()
    return out.reshape(len(qkv), -1)


@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(4, 4, 32), (4, 2, 16), (26, 1, 16), (1, 1, 64)])
@pytest.mark.parametrize(("before", "after"), [(-1, -1), (-1, 0), (2, 2), (8, 3)])
def test_attention_of_whole_texts(heads: int, kv_heads: int, dim: int, before: int, after: int) -> None:
    sizes = {"num_heads": heads, "num_kv_heads": kv_heads, "head_dim": dim, "scale": 0.25}
    one = node("SegmentAttention", "y", "x", "r", "o", **sizes, before=before, after=after)
    qkv = floats(TOKENS, (heads + 2 * kv_heads) * dim)
    rotary = np.tile(np.concatenate([np.ones(dim // 2), np.zeros(dim // 2)]), (TOKENS, 1)).astype(np.float32)
    ours, body = both(one, x=qkv, r=rotary, o=OFFSETS)
    np.testing.assert_allclose(ours, attention_of(qkv, heads, kv_heads, dim, before, after), atol=2e-5)
    np.testing.assert_allclose(body, ours, atol=1e-3)


def test_attention_turns_heads_and_norms_them_as_its_body_does() -> None:
    sizes = {"num_heads": 2, "num_kv_heads": 1, "head_dim": 16, "scale": 0.25, "softcap": 5.0}
    for interleaved in (0, 1):
        one = node("SegmentAttention", "y", "x", "r", "o", "q", "k", **sizes, interleaved=interleaved)
        angle = RNG.uniform(0, 6, (TOKENS, 8))
        rotary = np.concatenate([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
        ours, body = both(one, x=floats(TOKENS, 64), r=rotary, o=OFFSETS, q=floats(16), k=floats(16))
        np.testing.assert_allclose(body, ours, atol=5e-3)


@pytest.mark.parametrize("offsets", [[0, 3], [1, 60], [0, 0, 60], [0, 61], [], [0, 30, 20, 60]])
def test_offsets_that_cut_no_texts_are_refused(offsets: list[int]) -> None:
    sizes = {"num_heads": 1, "num_kv_heads": 1, "head_dim": 16, "scale": 0.25}
    inputs = {"x": floats(TOKENS, 48), "r": floats(TOKENS, 16), "o": np.array(offsets, np.int64)}
    with pytest.raises(Exception, match="offsets"):
        results(node("SegmentAttention", "y", "x", "r", "o", **sizes), kernels=True, **inputs)
    with pytest.raises(Exception, match="offsets"):
        results(node("Pool", "y", "x", "o", pooling="mean"), kernels=True, x=inputs["x"], o=inputs["o"])
