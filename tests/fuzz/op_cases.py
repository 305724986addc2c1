"""Small valid calls of every op, and the damage that is done to their inputs and nodes."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper

from edgedec.kernels import library
from edgedec.kernels.packing import layout
from edgedec.kernels.packing.experts import expert_places
from tests.fuzz.mutate import INTERESTING, integer, mutate_bytes
from tests.fuzz.mutate_onnx import mutate_node
from tests.fuzz.target import Files

GRAPH, CALL = "model.onnx", "call.json"
TYPES = {
    "f32": TensorProto.FLOAT,
    "u8": TensorProto.UINT8,
    "i64": TensorProto.INT64,
    "f16": TensorProto.FLOAT16,
    "i32": TensorProto.INT32,
}
_OUTPUTS = {"HeadTopK": ("f32", "i32", "f32", "f32", "f32")}
_FORMATS = (
    "q4_0", "q5_1", "q8_0", "q4_k", "q6_k", "q3_k", "iq4_nl", "mxfp4", "f16", "iq4", "iq3s", "iq2", "tq2_0",
    "nvfp4",
)  # fmt: skip
_SIZES = (0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 48, 64, 255, 256, 257, 1023, (1 << 20) + 1)
Tensor = dict[str, Any]


Case = tuple[str, dict[str, Any], list[Tensor | None]]
"""An op, its attributes, its inputs."""


def tensor(kind: str, *shape: int, values: list[float] | None = None) -> Tensor:
    """``values`` are repeated to fill the shape; without them they are random."""
    return {"type": kind, "shape": list(shape), "values": values, "shift": 0}


def weight(format: str, rows: int, cols: int) -> Tensor:
    return tensor("u8", *layout.FORMATS[format].packed_shape(rows, cols))


def seeds(folder: Path) -> list[tuple[Files, Files]]:
    """A graph of one node, and what it is called with; for each op and several formats."""
    cases: list[Case] = [
        ("RMSNorm", {"epsilon": 1e-6}, [tensor("f32", 33, 48), tensor("f32", 48), tensor("f32", 33, 48)]),
        ("RotaryTable", {}, [tensor("i64", 3, values=[0, 7, 99]), tensor("f32", 8, values=[1.0, 0.1])]),
        _attention(heads=4, kv_heads=2, window=0),
        _attention(heads=2, kv_heads=1, window=3, interleaved=1, softcap=30.0),
        _attention(heads=26, kv_heads=1, window=0),
        _attention(heads=4, kv_heads=2, row=9, window=3),
        _attention(heads=4, kv_heads=2, looked=(2, 2, 25)),
        _attention(heads=26, kv_heads=1, row=9, looked=(2, 1, 26)),
        _attention(heads=4, kv_heads=2, length=(5, 1, 2, 4, 3, 0, 2, 1, 4, 0)),
        _attention(heads=4, kv_heads=2, computed=2),
        _attention(heads=26, kv_heads=1, sinks=26),
        _attention(heads=2, kv_heads=1, row=9, computed=1, window=3, ring=1, capacity=7),
        _attention(heads=4, kv_heads=2, window=3, ring=1, capacity=7),
        _attention(heads=2, kv_heads=1, row=9, window=4, ring=1, capacity=8, value_norm=1),
        _attention(heads=4, kv_heads=2, shared=1),
        _attention(heads=4, kv_heads=2, row=9, shared=1, window=3, ring=1, capacity=7),
        _gated_delta(parents=[-1, 0, 0, 2], length=(40,), applied=[33]),
        _gated_delta(parents=list(range(-1, 34)), length=(3,), applied=[1], kernel=3),
        ("ShortConv", {"layer": 1, "kernel": 3}, _short_conv()),
        ("LayerNorm", {"epsilon": 1e-6}, [tensor("f32", *one) for one in ((9, 48), (48,), (48,), (9, 48))]),
        ("Activate", {"function": "gelu"}, [tensor("f32", 3, 33), tensor("f32", 3, 33)]),
        ("Pool", {"pooling": "mean"}, [tensor("f32", 5, 33), tensor("i64", 3, values=[0, 2, 5])]),
        _segments(heads=4, kv_heads=2, offsets=[0, 1, 9], before=2),
        _segments(heads=26, kv_heads=1, offsets=[0, 9], after=0),
        ("GatedProduct", {"activation": "sigmoid"}, [tensor("f32", 3, 33), tensor("f32", 3, 33)]),
        _gated_delta(parents=[-1], length=(2, 2, 1, 7, 2, 0, 50), applied=[44, 7], tiled=1),
    ]
    for format in _FORMATS:
        cols = 256 if layout.FORMATS[format].record == 256 else 64
        cases += _quantised(format, cols)
    made = [({GRAPH: graph(*case).SerializeToString(), CALL: _call(case[2])}, {}) for case in cases]
    return [*made, ({GRAPH: region(2).SerializeToString(), CALL: json.dumps(_REGION_CALL).encode()}, {})]


_REGION_WEIGHT = weight("q4_0", 32, 64)
_REGION_CALL = {"x": tensor("f32", 2, 64), "norm": tensor("f32", 64), "weight": _REGION_WEIGHT}


def region(threads: int) -> onnx.ModelProto:
    """A norm and a product as one node: y[2, 32] of x[2, 64], norm[64] and a weight."""
    attributes = {"cols": 64, "formats": "q4_0", "rows": [32], "terms": 1}
    nodes = [
        helper.make_node("RMSNorm", ["x", "norm"], ["normed"], domain="ai.edgedec", epsilon=1e-6),
        helper.make_node(
            "QuantLinear", ["normed", "", "", "weight"], ["y"], domain="ai.edgedec", **attributes
        ),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TYPES[given["type"]], given["shape"])
        for name, given in _REGION_CALL.items()
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.edgedec", 1)]
    body = helper.make_graph(nodes, "region", inputs, outputs)
    plain = helper.make_model(body, opset_imports=opsets, ir_version=10).SerializeToString()
    return onnx.load_model_from_string(library.with_regions(plain, threads) or plain)


def _attention(
    heads: int,
    kv_heads: int,
    row: int = 16,
    length: tuple[float, ...] = (20,),
    capacity: int = 25,
    looked: tuple[int, ...] = (),
    computed: int = 5,
    sinks: int = 0,
    **more: float,
) -> Case:
    attributes = {"layer": 1, "num_heads": heads, "num_kv_heads": kv_heads, "head_dim": 16, "scale": 0.25}
    shared = "shared" in more
    inputs: list[Tensor | None] = [
        tensor("f32", computed, (heads + (0 if shared else 2 * kv_heads)) * 16),
        tensor("f32", 5, 16),
        tensor("i64", 5, values=[-1, 0, 1, 1, 3] if len(length) == 1 else [-1]),
        tensor("i64", len(length), values=list(length)),
        tensor("f16", 2, 2, kv_heads, capacity, row),
        tensor("f32", 16),
        tensor("f32", 16),
        *([tensor("f32", *looked)] if looked else []),
        *([None, tensor("f16", 1, 2, kv_heads, 0, row)] if shared else []),
    ]
    if sinks:
        inputs += [*[None] * (9 - len(inputs)), tensor("f32", sinks)]
    return "TreeAttention", attributes | more, inputs


def _gated_delta(
    parents: list[int], length: tuple[float, ...], applied: list[float], kernel: int = 4, **more: int
) -> Case:
    heads, values, channels, count = 2, 4 * 16, 2 * 2 * 16 + 4 * 16, max(len(parents), 4)
    sizes = {"k_heads": heads, "v_heads": 4, "k_dim": 16, "v_dim": 16, "kernel": kernel}
    inputs: list[Tensor | None] = [
        tensor("f32", count, channels + values + 8),
        tensor("i64", count, values=list(parents)),
        tensor("i64", len(length), values=list(length)),
        tensor("i64", len(applied), values=applied),
        tensor("f32", 2, 32 * len(applied), channels + 8),
        tensor("f32", 2, len(applied), 4 * 16 * 16),
        tensor("f32", channels, kernel),
        tensor("f32", 4, values=[-0.5, -0.1, -2.0, -8.0]),
        tensor("f32", 4),
        tensor("f32", 16),
    ]
    return "GatedDelta", {"layer": 1, "epsilon": 1e-6, **sizes, **more}, inputs


def _short_conv() -> list[Tensor | None]:
    return [
        tensor("f32", 5, 3 * 32),
        tensor("i64", 5, values=[-1, 0, 0, 2, -1]),
        tensor("i64", 1, values=[70]),
        tensor("i64", 1, values=[60]),
        tensor("f32", 2, 32, 32),
        tensor("f32", 32, 3),
    ]


def _segments(*, heads: int, kv_heads: int, offsets: list[float], **seen: int) -> Case:
    tokens, dim = int(offsets[-1]), 16
    attrs = {"num_heads": heads, "num_kv_heads": kv_heads, "head_dim": dim, "scale": 0.25, **seen}
    qkv = tensor("f32", tokens, (heads + 2 * kv_heads) * dim)
    return "SegmentAttention", attrs, [
        qkv, tensor("f32", tokens, dim), tensor("i64", len(offsets), values=offsets), tensor("f32", dim)
    ]  # fmt: skip


def _quantised(format: str, cols: int) -> list[Case]:
    sizes = {"format": format, "rows": 33, "cols": cols}
    linear = {"formats": f"{format},q8_0", "rows": [33, 16], "cols": cols, "terms": 2}
    gated = {"formats": f"{format},{format}", "rows": 32, "cols": cols, "activation": "silu"}
    table = weight(format, 33, cols)
    want, keep = tensor("i64", 1, values=[1]), tensor("i64", 3, values=[0, 5, 32])
    warm = tensor("f32", 1, values=[0.8])
    two = [table, weight("q8_0", 16, cols)]
    half = weight(format, 32, cols)
    return [
        ("QuantEmbedding", sizes | {"alone": 1}, [tensor("i64", 4, values=[0, 32, 5]), table]),
        ("QuantLinear", linear, [tensor("f32", 3, cols), tensor("f32", 49), tensor("f32", 3, 49), *two]),
        ("QuantLinear", linear, [tensor("f32", 18, cols), None, None, *two]),
        ("GatedMLP", gated, [tensor("f32", 2, cols), half, half]),
        experts(format, cols, tokens=1),
        experts(format, cols, tokens=5, gating="sigmoid", epsilon=1e-6),
        experts(format, cols, tokens=5, activation="clamped_silu", biases=1),
        ("HeadTopK", {**sizes, "k": 8, "refine": 1}, [tensor("f32", 2, cols), table, want, None, warm]),
        ("HeadTopK", {**sizes, "k": 8}, [tensor("f32", 2, cols), table, want]),
        ("HeadTopK", {**sizes, "k": 8, "softcap": 30.0}, [tensor("f32", 2, cols), table, want, keep, warm]),
    ]


def experts(format: str, cols: int, tokens: int, **attributes: Any) -> Case:
    """Four experts of which each token chooses two; ``attributes`` replace those that it has."""
    width, formats = 32, (format, "q8_0", "q8_0")
    sizes = {"formats": ",".join(formats), "experts": 4, "chosen": 2, "rows": width, "cols": cols}
    rules = {"activation": "silu", "gating": "softmax", "normalise": 1}
    stride = expert_places(formats, width, cols, biased="biases" in attributes).stride
    inputs = [tensor("f32", tokens, cols), tensor("f32", tokens, 4), tensor("u8", 4, stride)]
    more = [tensor("f32", 4), tensor("f32", 4), tensor("f32", tokens, cols)]
    return "Experts", {**sizes, **rules, **attributes}, [*inputs, *more]


def graph(op: str, attributes: dict[str, Any], inputs: list[Tensor | None]) -> onnx.ModelProto:
    """A model of this one node; its inputs are called in0, in1, ..., but for those that are None."""
    names = ["" if given is None else f"in{i}" for i, given in enumerate(inputs)]
    outputs = [f"out{i}" for i, _ in enumerate(_OUTPUTS.get(op, ("f32",)))]
    node = helper.make_node(op, names, outputs, domain="ai.edgedec", **attributes)
    body = helper.make_graph(
        [node],
        op,
        [helper.make_tensor_value_info(f"in{i}", TYPES[t["type"]], None) for i, t in enumerate(inputs) if t],
        [
            helper.make_tensor_value_info(name, TYPES[kind], None)
            for name, kind in zip(outputs, _OUTPUTS.get(op, ("f32",)), strict=True)
        ],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.edgedec", 1)]
    return helper.make_model(body, opset_imports=opsets, ir_version=10)


def _call(inputs: list[Tensor | None]) -> bytes:
    return json.dumps({f"in{i}": given for i, given in enumerate(inputs) if given}).encode()


def mutate(files: Files, rng: random.Random) -> None:
    """Other shapes, values, lengths and alignments of what goes in (mostly); or another node."""
    if rng.random() < 0.25:
        files[GRAPH] = (_program if rng.random() < 0.5 else mutate_node)(files[GRAPH], rng)
        return
    call = json.loads(files[CALL])
    for given in [call[name] for name in rng.sample(sorted(call), rng.choice((1, 1, 1, min(2, len(call)))))]:
        rng.choice((_shape, _shape, _values, _values, _short))(given, rng)
    files[CALL] = json.dumps(call).encode()


def _program(data: bytes, rng: random.Random) -> bytes:
    """Damage the ops of a region; a node that is none as others do."""
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError:
        return mutate_node(data, rng)
    for attribute in (one for node in model.graph.node for one in node.attribute if one.name == "ops"):
        if rng.random() < 0.3:
            attribute.s = mutate_bytes(attribute.s, rng)
            return model.SerializeToString()
        with suppress(DecodeError):
            inner = onnx.ModelProto(graph=onnx.GraphProto.FromString(attribute.s))
            changed = onnx.ModelProto.FromString(mutate_node(inner.SerializeToString(), rng))
            attribute.s = changed.graph.SerializeToString()
            return model.SerializeToString()
    return mutate_node(data, rng)


def _shape(given: Tensor, rng: random.Random) -> None:
    shape, action = given["shape"], rng.choice(("size", "size", "near", "near", "more", "fewer", "swap"))
    if action in ("size", "near") and shape:
        at = rng.randrange(len(shape))
        shape[at] = rng.choice(_SIZES) if action == "size" else max(0, shape[at] + rng.choice((-1, 1)))
    elif action == "more":
        shape.insert(rng.randrange(len(shape) + 1), rng.choice((0, 1, 1, 2)))
    elif action == "fewer" and shape:
        del shape[rng.randrange(len(shape))]
    else:
        rng.shuffle(shape)


def _values(given: Tensor, rng: random.Random) -> None:
    if given["type"] == "i64":
        values = list(given["values"] or [0])
        values[rng.randrange(len(values))] = rng.choice(
            (integer(rng, signed=True), rng.randrange(-2, 40), rng.choice(INTERESTING) % 2**63)
        )
        given["values"] = rng.choice((values, values[::-1]))
    else:
        special = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-45, 3e38, -3e38, 255.0, 6e4)
        given["values"] = [rng.choice(special) for _ in range(rng.choice((1, 2, 7, 33)))]


def _short(given: Tensor, rng: random.Random) -> None:
    """Not where its elements belong in memory; or another type."""
    if rng.random() < 0.7:
        given["shift"] = rng.choice((1, 2, 3, 4, 8, 32))
    else:
        given["type"] = rng.choice(list(TYPES))
