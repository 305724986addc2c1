"""Ops that are handed what they can not take: said in one line, and nothing read that is not theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from edgedec.backends.onnx.session import one_line_errors
from edgedec.core.errors import BackendError
from tests.fixtures.op_sessions import called, session_of
from tests.fuzz.op_cases import Tensor, graph, tensor, weight

SIZES = {"format": "q8_0", "rows": 33, "cols": 64}


def session(op: str, attributes: dict[str, Any], inputs: list[Tensor | None]) -> ort.InferenceSession:
    return session_of(graph(op, attributes, inputs))


def test_a_shorter_weight_at_the_address_of_an_earlier_one() -> None:
    ids, table = np.array([32], np.int64), weight("q8_0", 33, 64)
    blob = np.zeros(table["shape"], np.uint8)
    made = session("QuantEmbedding", SIZES, [tensor("i64", 1), table])
    called(made, ids, blob)
    with pytest.raises(BackendError, match="packed weight has 1088 bytes, its shape needs 3264"):
        called(made, ids, blob[:1])


@pytest.mark.parametrize("shift", [1, 2, 3])
@pytest.mark.parametrize("moved", [0, 1])
def test_memory_that_its_type_may_not_lie_in(shift: int, moved: int) -> None:
    ids, table = np.array([32], np.int64), weight("q8_0", 33, 64)
    blob, memory = np.zeros(table["shape"], np.uint8), np.zeros(5000, np.uint8)
    made = session("QuantEmbedding", SIZES, [tensor("i64", 1), table])
    addresses = [ids.ctypes.data, blob.ctypes.data]
    addresses[moved] = memory.ctypes.data + shift
    with pytest.raises(BackendError, match=f"input {moved} does not lie where its type may lie"):
        called(made, (ids, addresses[0]), (blob, addresses[1]))


def test_a_message_begins_with_what_is_wrong() -> None:
    """Not with the place in ONNX Runtime's source, whose length left nothing of the message."""
    given = [helper.make_tensor_value_info("in0", TensorProto.FLOAT, [1])]
    opsets = [helper.make_opsetid("", 20)]
    empty = helper.make_model(helper.make_graph([], "g", given, []), opset_imports=opsets, ir_version=10)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    with pytest.raises(BackendError, match="OrtValue") as caught, one_line_errors(loading=True):
        ort.InferenceSession(empty.SerializeToString(), options)
    assert "onnxruntime::" not in str(caught.value)
    assert ".cc" not in str(caught.value)


@pytest.mark.parametrize("formats", ["q8_0", "q8_0,q8_0,q8_0"])
def test_other_than_two_formats_of_a_gated_mlp(formats: str) -> None:
    sizes = {"formats": formats, "rows": 32, "cols": 64, "activation": "silu"}
    half = weight("q8_0", 32, 64)
    with pytest.raises(BackendError, match="formats must name two"):
        session("GatedMLP", sizes, [tensor("f32", 1, 64), half, half])


def test_an_optional_output_without_a_name_is_not_written() -> None:
    attributes = {"layer": 0, "num_heads": 1, "num_kv_heads": 1, "head_dim": 16, "scale": 0.25}
    shapes = [("f32", 2, 48), ("f32", 2, 16), ("i64", 2), ("i64", 1), ("f16", 1, 2, 1, 4, 16)]
    model = graph("TreeAttention", attributes, [tensor(kind, *shape) for kind, *shape in shapes])
    model.graph.node[0].output.append("")
    made = session_of(model)
    random = np.random.default_rng(1)
    cache = np.zeros((1, 2, 1, 4, 16), np.float16)
    qkv, rotary = random.standard_normal((2, 48)), np.concatenate([np.ones((2, 8)), np.zeros((2, 8))], axis=1)
    feeds = {
        "in0": qkv.astype(np.float32),
        "in1": rotary.astype(np.float32),
        "in2": np.array([-1, 0]),
        "in3": np.array([0]),
        "in4": cache,
    }
    (out,) = made.run(["out0"], feeds)
    # The first token sees itself alone.
    np.testing.assert_array_equal(out[0], qkv[0, 32:].astype(np.float16).astype(np.float32))


def test_a_needed_output_without_a_name() -> None:
    model = graph(
        "HeadTopK", SIZES | {"k": 4}, [tensor("f32", 1, 64), weight("q8_0", 33, 64), tensor("i64", 1)]
    )
    model.graph.node[0].output[1] = ""
    blob = np.zeros(weight("q8_0", 33, 64)["shape"], np.uint8)
    with pytest.raises(BackendError):
        called(session_of(model), np.zeros((1, 64), np.float32), blob, np.array([0]))


ATTENTION: dict[str, Any] = {"layer": 1, "num_heads": 2, "num_kv_heads": 1, "head_dim": 16, "scale": 0.25}
SHAPES = [("f32", 2, 64), ("f32", 2, 16), ("i64", 2), ("i64", 1), ("f16", 2, 2, 1, 8, 16)]


def look(shape: tuple[int, ...], lengths: tuple[int, ...] = (3,), shift: int = 0, **more: Any) -> Any:
    """Two tokens behind three, in the second of two layers: what was written into ``attention[shape]``."""
    random = np.random.default_rng(1)
    inputs: list[Tensor | None] = [*(tensor(kind, *size) for kind, *size in SHAPES), None, None]
    made = session("TreeAttention", ATTENTION | more, [*inputs, tensor("f32", *shape)])
    angles = np.concatenate([np.ones((2, 8)), np.zeros((2, 8))], axis=1)
    arrays = [
        random.standard_normal((2, 64)).astype(np.float32),
        angles.astype(np.float32),
        np.array([-1, 0] if len(lengths) == 1 else [-1, -1]),
        np.array(lengths),
        random.standard_normal((2, 2, 1, 8, 16)).astype(np.float16),
    ]
    memory = np.full(4 * int(np.prod(shape)) + 8, 7, np.uint8)
    called(made, *arrays, (np.empty(shape, np.float32), memory.ctypes.data + shift))
    assert (memory[len(memory) - 8 :] == 7).all()
    return memory[:-8].view(np.float32).reshape(shape)


def test_attention_is_told_of_the_layer_in_any_number_of_slots_that_is_enough() -> None:
    untouched = np.frombuffer(b"\7\7\7\7", np.float32)[0]
    for slots in (5, 8, 9):
        found = look((2, 1, slots))
        assert (found[0] == untouched).all()
        assert ((found[1, 0, :5] > 0) & (found[1, 0, :5] < 1)).all()
        assert (found[1, 0, 5:] == untouched).all()


@pytest.mark.parametrize("shape", [(0,), (2, 1, 0), (5, 0, 3)])
def test_attention_without_elements_is_not_asked_for(shape: tuple[int, ...]) -> None:
    assert look(shape).size == 0
    assert look(shape, (2, 1, 0, 3, 1, 1, 2)).size == 0  # nor is there anything wrong with two sequences


@pytest.mark.parametrize(
    ("shape", "options", "said"),
    [
        ((2, 1, 4), {}, "attention must be"),
        ((1, 1, 8), {}, "attention must be"),
        ((3, 1, 8), {}, "attention must be"),
        ((2, 2, 8), {}, "attention must be"),
        ((2, 8), {}, "attention must be"),
        ((8,), {}, "attention must be"),
        ((2, 1, 8, 1), {}, "attention must be"),
        ((2, 1, 8), {"shift": 2}, "input 7 does not lie where its type may lie"),
        ((2, 1, 8), {"ring": 1, "window": 3}, "a single sequence and no ring"),
        ((2, 1, 8), {"lengths": (2, 1, 0, 3, 1, 1, 2)}, "a single sequence and no ring"),
    ],
)
def test_attention_that_cannot_be_told(shape: tuple[int, ...], options: dict[str, Any], said: str) -> None:
    with pytest.raises(BackendError, match=said) as refused:
        look(shape, **options)
    assert "\n" not in refused.value.message
