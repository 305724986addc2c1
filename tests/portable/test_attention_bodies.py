"""Bodies of attention with normed values and with sinks, and of layers that share another layer's keys."""

from __future__ import annotations

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
from tests.kernels.attention import F16, F32, Model, depths
from tests.kernels.test_tree_attention import random_tree
from tests.portable.runner import options

LENGTH, TOKENS = 21, 9
INPUTS = ("rotary", "parents", "length", "cache", "q_norm", "k_norm")


def attributes(model: Model, **more: int) -> dict[str, Any]:
    sizes = {"num_heads": model.heads, "num_kv_heads": model.kv_heads, "head_dim": model.dim}
    flags = {"window": model.window, "ring": int(model.ring), "value_norm": 1, "interleaved": 0, "layer": 0}
    return {**sizes, **flags, "scale": 1.0, "epsilon": 1e-6, **more}


def two_layers(model: Model) -> onnx.ModelProto:
    """An attention, and one with queries of its own that shares its keys."""
    owner = node("TreeAttention", "a", "qkv", *INPUTS, **attributes(model))
    owner.output.append("kv_new")
    shared = node("TreeAttention", "b", "q", *INPUTS[:-1], "", "", "kv_new", **attributes(model, shared=1))
    functions = attach_bodies([owner, shared])
    values = [
        helper.make_tensor_value_info(name, 1, None) for name in ("qkv", "q", "rotary", "q_norm", "k_norm")
    ]
    values += [helper.make_tensor_value_info(name, 7, None) for name in ("parents", "length")]
    values += [helper.make_tensor_value_info("cache", 10, None)]
    results = [helper.make_tensor_value_info(*pair, None) for pair in (("a", 1), ("b", 1), ("kv_new", 10))]
    graph = helper.make_graph([owner, shared], "two", values, results)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=IR_VERSION)


def run(model: Model, feeds: dict[str, NDArray[Any]], *, kernels: bool) -> list[NDArray[Any]]:
    session = ort.InferenceSession(
        two_layers(model).SerializeToString(), options(kernels=kernels), providers=["CPUExecutionProvider"]
    )
    outputs: list[NDArray[Any]] = session.run(None, feeds)
    return outputs


def feeds_of(model: Model, cache: F16) -> dict[str, NDArray[Any]]:
    parents = random_tree(3, TOKENS)
    qkv: F32 = model.tokens(TOKENS)
    q_norm, k_norm = model.norm_weights()
    assert q_norm is not None
    assert k_norm is not None
    return {
        "qkv": qkv,
        "q": np.ascontiguousarray(qkv[::-1, : model.heads * model.dim]),
        "rotary": model.rotary([LENGTH + depth for depth in depths(parents)]),
        "q_norm": q_norm,
        "k_norm": k_norm,
        "parents": np.array(parents, np.int64),
        "length": np.array([LENGTH], np.int64),
        "cache": cache[None].copy(),
    }


@pytest.mark.parametrize("window", [0, 12])
def test_bodies_agree_with_the_kernels(window: int) -> None:
    model = Model(norms=True, window=window, ring=window > 0)
    feeds = feeds_of(model, model.cache(LENGTH, LENGTH + TOKENS))
    a, b, new = run(model, feeds, kernels=True)
    body_a, body_b, body_new = run(
        model, feeds_of(model, model.cache(LENGTH, LENGTH + TOKENS)), kernels=False
    )
    assert new.size == 0
    np.testing.assert_allclose(body_a, a, atol=2e-3)
    np.testing.assert_allclose(body_b, b, atol=2e-3)
    assert np.abs(a - b).max() > 0.1
    values = body_new[0, 1].astype(np.float64)
    np.testing.assert_allclose((values**2).mean(axis=-1), 1.0, rtol=1e-3)


@pytest.mark.parametrize("window", [0, 12])
@pytest.mark.parametrize("count", [0, 1, 4])
@pytest.mark.parametrize("kernels", [True, False])
def test_the_last_tokens_alone_may_be_computed(window: int, count: int, kernels: bool) -> None:
    """Nothing reads the others of a layer that shares keys, where the head is not asked for them."""
    model = Model(norms=True, window=window, ring=window > 0)
    whole = feeds_of(model, model.cache(LENGTH, LENGTH + TOKENS))
    _, every, _ = run(model, whole, kernels=kernels)
    last = feeds_of(model, model.cache(LENGTH, LENGTH + TOKENS))
    last["q"] = last["q"][TOKENS - count :]
    _, some, _ = run(model, last, kernels=kernels)
    assert some.shape == (count, every.shape[1])
    np.testing.assert_allclose(some, every[TOKENS - count :], atol=0 if kernels else 1e-5)


@pytest.mark.parametrize("other", ["", "own"])
def test_shared_keys_need_the_output_of_their_layer_and_none_of_their_own(other: str) -> None:
    model = Model(norms=True)
    made = two_layers(model)
    shared = made.graph.node[1]
    if other:
        shared.output.append("more")
    else:
        shared.input[8] = ""
    session = ort.InferenceSession(made.SerializeToString(), options(kernels=True))
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidArgument, match="shared keys need"):
        session.run(None, feeds_of(model, model.cache(LENGTH, LENGTH + TOKENS)))


def with_sinks(model: Model) -> onnx.ModelProto:
    """The same, and both layers have sinks."""
    made = two_layers(model)
    for one in made.graph.node:
        one.input.extend([""] * (9 - len(one.input)))
        one.input.append("sinks")
    made.graph.input.append(helper.make_tensor_value_info("sinks", 1, None))
    del made.functions[:]
    made.functions.extend(attach_bodies(made.graph.node))
    return made


@pytest.mark.parametrize("window", [0, 12])
def test_bodies_with_sinks_agree_with_the_kernels(window: int) -> None:
    model = Model(heads=8, norms=True, window=window, ring=window > 0, sinks=True)
    sinks = np.linspace(-6, 20, 8, dtype=np.float32)
    made, results = with_sinks(model).SerializeToString(), []
    for kernels in (True, False):
        session = ort.InferenceSession(made, options(kernels=kernels), providers=["CPUExecutionProvider"])
        feeds = feeds_of(model, model.cache(LENGTH, LENGTH + TOKENS))
        results.append(session.run(["a", "b"], feeds | {"sinks": sinks}))
        without = session.run(["a"], feeds | {"sinks": np.full(8, -1e30, np.float32)})[0]
        assert np.abs(without - results[-1][0]).max() > 0.1
    for kernel, body in zip(*results, strict=True):
        np.testing.assert_allclose(body, kernel, atol=2e-3)


def test_sinks_are_one_for_each_head() -> None:
    model = Model(norms=True)
    session = ort.InferenceSession(with_sinks(model).SerializeToString(), options(kernels=True))
    feeds = feeds_of(model, model.cache(LENGTH, LENGTH + TOKENS))
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidArgument, match="one for each head"):
        session.run(None, feeds | {"sinks": np.zeros(5, np.float32)})
