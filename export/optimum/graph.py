"""Adds EdgeDec's head to the decoder that optimum exports, so that logits stay in the runtime."""

from __future__ import annotations

import re

import onnx
from onnx import TensorProto, helper

from edgedec.core.errors import UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.portable.body import Body
from edgedec.export.portable.head import summary

_PAST = re.compile(r"past_key_values\.(\d+)\.(key|value)")
_OTHERS = {"input_ids", "attention_mask", "position_ids"}
_ALL_LOGITS = "edgedec_all_logits"


@dataclass(frozen=True, slots=True)
class CacheShape:
    """Sizes of a KV cache whose layers each hold keys and values f32[batch, kv_heads, tokens, head_dim]."""

    layers: int
    kv_heads: int
    head_dim: int


def cache_shape(graph: onnx.GraphProto) -> CacheShape:
    """Read the sizes of the cache from the inputs of ``graph``.

    Raises UnsupportedError if they are not those of a plain decoder with one kind of layer.
    """
    past = {node.name: node for node in graph.input if _PAST.fullmatch(node.name)}
    shapes = {tuple(_dims(node)) for node in past.values()}
    layers = len(past) // 2
    wanted = {f"past_key_values.{layer}.{part}" for layer in range(layers) for part in ("key", "value")}
    others = {node.name for node in graph.input} - past.keys()
    if not past or past.keys() != wanted or not others <= _OTHERS or len(shapes) != 1:
        raise UnsupportedError("optimum exports this architecture with another cache than keys and values")
    shape = shapes.pop()
    if len(shape) != 4 or not (shape[1] and shape[3]):
        raise UnsupportedError(f"optimum exports this architecture with a cache of shape {shape}")
    return CacheShape(layers, shape[1], shape[3])


def _dims(node: onnx.ValueInfoProto) -> list[int]:
    """Return the sizes of an input; 0 for a size that varies."""
    return [dim.dim_value for dim in node.type.tensor_type.shape.dim]


def add_head(graph: onnx.GraphProto, vocab: int, k: int) -> None:
    """Replace the output ``logits`` f32[1, T, V] by head rows for the indices of a new input ``rows``."""
    for node in graph.node:
        for side in (node.input, node.output):
            side[:] = [_ALL_LOGITS if name == "logits" else name for name in side]
    body = Body("edgedec_head_")
    logits = body.op("Gather", body.op("Squeeze", _ALL_LOGITS, [0]), "rows", axis=0)
    values, ids, logsumexp, entropy = summary(body, logits, k)
    ids = body.cast(ids, TensorProto.INT32)
    shapes: dict[str, tuple[str, int, list[str | int]]] = {
        "values": (values, TensorProto.FLOAT, ["head_rows", k]),
        "ids": (ids, TensorProto.INT32, ["head_rows", k]),
        "logsumexp": (logsumexp, TensorProto.FLOAT, ["head_rows"]),
        "entropy": (entropy, TensorProto.FLOAT, ["head_rows"]),
        "logits": (logits, TensorProto.FLOAT, ["head_rows", vocab]),
    }
    graph.node.extend(body.nodes)
    graph.node.extend(helper.make_node("Identity", [made], [name]) for name, (made, _, _) in shapes.items())
    graph.input.append(helper.make_tensor_value_info("rows", TensorProto.INT64, ["head_rows"]))
    kept = [output for output in graph.output if output.name != "logits"]
    del graph.output[:]
    graph.output.extend(helper.make_tensor_value_info(n, t, shape) for n, (_, t, shape) in shapes.items())
    graph.output.extend(kept)
