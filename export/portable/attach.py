"""Gives every node of EdgeDec's domain a function of the same name: its definition in standard ops.

Where the kernels are registered, ONNX Runtime prefers them and ignores the bodies. Elsewhere it replaces the
node by its body. A body depends on sizes and formats, so an op has one for each set of them; they differ in
their ``overload`` (ONNX IR 10).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

from edgedec.core.errors import UnsupportedError
from edgedec.export.model import DOMAIN, attributes
from edgedec.export.portable import attention, encoders, experts, head, matrices, recurrent
from edgedec.export.portable.body import Body, BodyBuilder
from edgedec.export.portable.decode import UNPACK, UNPACKABLE, unpacker_function
from edgedec.export.portable.floats import half_function

BODIES: dict[str, BodyBuilder] = {
    "QuantEmbedding": matrices.quant_embedding,
    "RMSNorm": attention.rms_norm,
    "QuantLinear": matrices.quant_linear,
    "GatedMLP": matrices.gated_mlp,
    "GatedProduct": matrices.gated_product,
    "Experts": experts.experts,
    "RotaryTable": attention.rotary_table,
    "TreeAttention": attention.tree_attention,
    "SegmentAttention": encoders.segment_attention,
    "LayerNorm": encoders.layer_norm,
    "Activate": encoders.activate,
    "Pool": encoders.pool,
    "GatedDelta": recurrent.gated_delta,
    "ShortConv": recurrent.short_conv,
    "HeadTopK": head.head_topk,
}
"""Functions that build the body of each op."""
_WARM: dict[str, BodyBuilder] = {
    "QuantEmbedding": matrices.quant_embedding_or_none,
    "TreeAttention": attention.warm_tree_attention,
}
"""Others, for graphs whose passes take over tokens that an earlier pass computed in part, maybe no more."""
_OF_THE_NODE = {"layer", "checks"}
"""Attributes that a body reads from the node or ignores, so that one body serves all their values."""


def attach_bodies(nodes: Iterable[onnx.NodeProto], *, warm: bool = False) -> list[onnx.FunctionProto]:
    """Return the functions that ``nodes`` need, and set the ``overload`` of EdgeDec's nodes.

    ``warm``: a pass may have computed tokens before those of a node. Raises UnsupportedError for an op or a
    weight format without a body.
    """
    made: dict[tuple[object, ...], onnx.FunctionProto] = {}
    counts: dict[str, int] = {}
    for node in nodes:
        if node.domain != DOMAIN:
            continue
        key = _variant(node)
        if key not in made:
            counts[node.op_type] = number = counts.get(node.op_type, 0) + 1
            made[key] = body_of(node, str(number), warm=warm)
        node.overload = made[key].overload
    called = {op.removeprefix(UNPACK) for function in made.values() for op in _called(function.node)}
    helpers = [half_function(), *(unpacker_function(format) for format in sorted(called))]
    return [*made.values(), *(helpers if called else [])]


def body_of(node: onnx.NodeProto, overload: str = "", *, warm: bool = False) -> onnx.FunctionProto:
    """Return the function of one node, with the name of the node's op."""
    builder = (_WARM if warm else {}).get(node.op_type) or BODIES.get(node.op_type)
    attrs = attributes(node)
    if builder is None:
        raise UnsupportedError(f"the op {node.op_type} has no body in standard ONNX ops")
    named = str(attrs.get("formats", attrs.get("format", "")))
    if missing := [f for f in named.split(",") if f and f not in UNPACKABLE]:
        raise UnsupportedError(f"weights of format {missing[0]} have no decoder in standard ONNX ops")
    body = Body()
    inputs = [f"in{i}" for i in range(len(node.input))]
    present = [name if given else "" for name, given in zip(inputs, node.input, strict=True)]
    outputs = [f"out{i}" for i in range(len(node.output))]
    results = builder(body, attrs, present)[: len(outputs)]
    return body.function(node.op_type, overload, inputs, results, outputs, sorted(attrs))


def _called(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """Yield the names of the functions that ``nodes`` call, also within the graphs of loops."""
    for node in nodes:
        if node.domain == DOMAIN:
            yield node.op_type
        for attribute in node.attribute:
            yield from _called(attribute.g.node)


def _variant(node: onnx.NodeProto) -> tuple[object, ...]:
    """Return the key of a body among those of one op: attributes, and the inputs and outputs that exist."""
    attrs = {name: value for name, value in attributes(node).items() if name not in _OF_THE_NODE}
    return node.op_type, repr(sorted(attrs.items())), tuple(map(bool, node.input)), len(node.output)
