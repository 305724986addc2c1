"""Bodies of RMSNorm, RotaryTable and TreeAttention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from edgedec.export.portable.body import Body

_SINKS = 9
"""Input of TreeAttention with a logit of each head that takes part in its softmax."""


def rms_norm(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """Compute x / sqrt(mean(x^2) + epsilon) * weight (+ residual)."""
    x, weight, *residual = inputs
    y = _norm(body, x, weight, attrs["epsilon"])
    return [body.op("Add", y, residual[0]) if residual and residual[0] else y]


def rotary_table(body: Body, _attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """Compute the angles in double and reduce them to one turn; sine and cosine are then float32."""
    positions, frequencies = (body.cast(name, TensorProto.DOUBLE) for name in inputs)
    angles = body.op("Mul", body.op("Unsqueeze", positions, [1]), frequencies)
    turns = body.op("Floor", body.op("Mul", angles, np.array(1 / math.tau)))
    angles = body.op("Sub", angles, body.op("Mul", turns, np.array(math.tau)))
    angles = body.cast(angles, TensorProto.FLOAT)
    return [body.op("Concat", body.op("Cos", angles), body.op("Sin", angles), axis=1)]


def tree_attention(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """Compute attention over the cached keys and those of the pass.

    A function cannot write its input. It returns the new keys and values as kv_new f16[1, 2, Hkv, T, d], and
    the caller stores them in slots length .. length + T - 1 of the layer (modulo R in a ring of R slots).
    With ``shared``, ``qkv`` has queries only, and the new keys and values are the input kv_new of the layer
    that computes them.
    Attention weights, which kernels write into an input, are not reported.
    """
    return _attention(body, attrs, inputs, "")


def warm_tree_attention(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """Compute attention where the pass has computed tokens before those of ``qkv``: the last ones of all.

    The cache has their keys and values already, in slots from ``length`` on; ``rotary`` and ``parents`` are
    those of all tokens.
    """
    before = body.op("Sub", body.size(inputs[2], 0), body.size(inputs[0], 0))
    return _attention(body, attrs, inputs, before)


def _attention(body: Body, attrs: dict[str, Any], inputs: list[str], warm: str) -> list[str]:
    """Compute attention; ``warm`` is the number of tokens before those of ``qkv``, "" for none."""
    qkv, rotary, parents, length, kv_cache, *_ = inputs
    before = warm
    if attrs.get("shared") and not warm:  # the last tokens alone may be computed
        before = body.op("Sub", body.size(parents, 0), body.size(qkv, 0))
    rotary = _own(body, rotary, before)
    heads, kv_heads, dim = attrs["num_heads"], attrs["num_kv_heads"], attrs["head_dim"]
    q, new = _prepared(body, attrs, inputs, rotary)
    stored = body.op("Add", length, warm) if warm else length
    resident, slots = _resident(body, kv_cache, (length, stored), attrs["window"] if attrs.get("ring") else 0)
    both = body.cast(body.op("Concat", resident, new, axis=2), TensorProto.FLOAT)
    keys, values = (body.op("Unsqueeze", body.element(both, i, 0), [1]) for i in range(2))
    q = body.op("Mul", q, attrs["scale"])
    q = body.reshape(body.op("Transpose", q, perm=[1, 0, 2]), kv_heads, heads // kv_heads, -1, dim)
    scores = body.op("MatMul", q, body.op("Transpose", keys, perm=[0, 1, 3, 2]))
    scores = softcapped(body, scores, attrs)
    visible = _own(body, _visible(body, parents, length, slots, attrs["window"]), before)
    hidden = body.op("Not", visible)
    scores = body.op("Where", hidden, np.float32(-1e30), scores)
    mixed = body.op("MatMul", _softmax(body, scores, inputs, attrs), values)
    mixed = body.op("Transpose", mixed, perm=[2, 0, 1, 3])
    out = body.reshape(mixed, 0, heads * dim)
    return [out] if attrs.get("shared") else [out, body.op("Unsqueeze", new, [0])]


def _softmax(body: Body, scores: str, inputs: list[str], attrs: dict[str, Any]) -> str:
    """Return the weights of keys; sinks, the last input, take part without keys."""
    sinks = inputs[_SINKS] if len(inputs) > _SINKS else ""
    if not sinks:
        return body.op("Softmax", scores, axis=-1)
    kv_heads, group = attrs["num_kv_heads"], attrs["num_heads"] // attrs["num_kv_heads"]
    shape = body.op("Concat", [kv_heads, group], body.size(scores, 2), [1], axis=0)
    column = body.op("Expand", body.reshape(sinks, kv_heads, group, 1, 1), shape)
    weights = body.op("Softmax", body.op("Concat", scores, column, axis=-1), axis=-1)
    return body.slice(weights, 0, -1, -1)


def _prepared(body: Body, attrs: dict[str, Any], inputs: list[str], rotary: str) -> tuple[str, str]:
    """Return queries [T, heads, d], and the keys and values f16[2, Hkv, T, d] of the pass."""
    heads, kv_heads, dim = attrs["num_heads"], attrs["num_kv_heads"], attrs["head_dim"]
    q_norm, k_norm, _, shared = [*inputs[5:], "", "", "", ""][:4]
    counts = [heads] if attrs.get("shared") else [heads, kv_heads, kv_heads]

    def turned(part: str, norm: str) -> str:
        part = _norm(body, part, norm, attrs["epsilon"]) if norm else part
        return _rotate(body, part, rotary, dim, bool(attrs["interleaved"]))

    q, *own = _heads(body, inputs[0], counts, dim)
    q = turned(q, q_norm)
    if not own:
        return q, body.op("Squeeze", shared, [0])
    k, v = turned(own[0], k_norm), own[1]
    if attrs.get("value_norm"):
        v = _norm(body, v, "", attrs["epsilon"])
    new = body.op("Transpose", body.op("Concat", *(body.op("Unsqueeze", p, [0]) for p in (k, v)), axis=0),
                  perm=[0, 2, 1, 3])  # fmt: skip
    return q, body.cast(new, TensorProto.FLOAT16)


def _own(body: Body, rows: str, warm: str) -> str:
    """Return the rows of the tokens of ``qkv``, without those of the ``warm`` tokens before them."""
    return body.op("Slice", rows, warm, [np.iinfo(np.int64).max], [0]) if warm else rows


def softcapped(body: Body, x: str, attrs: dict[str, Any]) -> str:
    """Compute cap * tanh(x / cap) if the node has a softcap, else return x."""
    if not (cap := float(attrs.get("softcap", 0.0))):
        return x
    return body.op("Mul", body.op("Tanh", body.op("Div", x, cap)), cap)


def _norm(body: Body, x: str, weight: str, epsilon: float) -> str:
    mean = body.op("ReduceMean", body.op("Mul", x, x), [-1], keepdims=1)
    normed = body.op("Div", x, body.op("Sqrt", body.op("Add", mean, float(epsilon))))
    return body.op("Mul", normed, weight) if weight else normed


def _heads(body: Body, qkv: str, counts: list[int], dim: int) -> list[str]:
    """Split rows of heads into parts, each f32[T, heads, d]."""
    rows = body.reshape(qkv, 0, sum(counts), dim)
    ends = np.cumsum(counts).tolist()
    return [body.slice(rows, end - count, end, 1) for count, end in zip(counts, ends, strict=True)]


def _rotate(body: Body, x: str, rotary: str, dim: int, interleaved: bool) -> str:
    """Rotate the pairs (2i, 2i + 1) or (i, i + d/2) of x[T, H, d] by the angles of rotary[T, d]."""
    axis, shape = (3, (0, 0, dim // 2, 2)) if interleaved else (2, (0, 0, 2, dim // 2))
    pairs = body.reshape(x, *shape)
    first, second = (body.element(pairs, i, axis) for i in range(2))
    table = body.op("Unsqueeze", rotary, [1])
    cos, sin = body.slice(table, 0, dim // 2, 2), body.slice(table, dim // 2, dim, 2)
    turned = (
        body.op("Sub", body.op("Mul", first, cos), body.op("Mul", second, sin)),
        body.op("Add", body.op("Mul", first, sin), body.op("Mul", second, cos)),
    )
    joined = body.op("Concat", *(body.op("Unsqueeze", part, [axis]) for part in turned), axis=axis)
    return body.reshape(joined, 0, 0, dim)


def _resident(body: Body, kv_cache: str, ends: tuple[str, str], ring: int) -> tuple[str, str]:
    """Return the stored keys and values [2, Hkv, S + W, d] of the node's layer, and the first S slots.

    ``ends``: where the slots of resident tokens end, and where those of the W warm tokens behind them do. In
    a ring the resident ones are the last ``ring`` - 1, which is all that a token with that window sees.
    """
    length, stored = ends
    layer = body.attribute("layer")
    layer_end, end = body.op("Add", layer, [1]), body.op("Squeeze", length, [0])
    if not ring:
        slots = body.op("Range", np.int64(0), end, np.int64(1))
        starts = body.op("Concat", layer, body.constant([0]), axis=0)
        stops = body.op("Concat", layer_end, stored, axis=0)
        return body.op("Squeeze", body.op("Slice", kv_cache, starts, stops, [0, 3]), [0]), slots
    first = body.op("Max", body.op("Sub", end, np.int64(ring - 1)), np.int64(0))
    slots = every = body.op("Range", first, end, np.int64(1))
    if stored != length:
        every = body.op("Range", first, body.op("Squeeze", stored, [0]), np.int64(1))
    one = body.op("Squeeze", body.op("Slice", kv_cache, layer, layer_end, [0]), [0])
    return body.op("Gather", one, body.op("Mod", every, body.size(kv_cache, 3)), axis=2), slots


def _visible(body: Body, parents: str, length: str, slots: str, window: int) -> str:
    """Return the mask bool[T, S + T] of cached slots and tokens of the pass that each token attends to.

    The position of a cached token is its slot; in the pass it is length + the number of its ancestors there.
    """
    above = _ancestors(body, parents)
    depth = body.op("Sub", body.op("ReduceSum", body.cast(above, TensorProto.INT64), [1], keepdims=0), [1])
    count = body.size(parents, 0)
    positions = body.op("Concat", slots, body.op("Add", depth, length), axis=0)
    resident = body.op("Expand", np.array(True), body.op("Concat", count, body.size(slots, 0), axis=0))
    seen = body.op("Concat", resident, above, axis=1)
    if window:
        first = body.op("Sub", body.op("Unsqueeze", body.op("Add", depth, length), [1]), window)
        seen = body.op("And", seen, body.op("Greater", body.op("Unsqueeze", positions, [0]), first))
    return seen


def _ancestors(body: Body, parents: str) -> str:
    """Return bool[T, T]: True at (i, j) if j is i or an ancestor of i.

    The method is pointer jumping: a node that knows 2^n steps of its path adds the steps that the node 2^n
    steps above it knows. Row and index 0 stand for the last cached token, where every path ends.
    """
    size = body.size(parents, 0)
    count = body.op("Squeeze", size, [0])
    token = body.op("Range", np.int64(0), count, np.int64(1))
    row = body.op("Range", np.int64(-1), count, np.int64(1))
    seen = body.op("Equal", body.op("Unsqueeze", row, [1]), body.op("Unsqueeze", token, [0]))
    above = body.op("Concat", [0], body.op("Add", parents, [1]), axis=0)
    doublings = body.op("Div", body.op("Log", body.cast(count, TensorProto.FLOAT)), math.log(2))
    rounds = body.op("Add", body.cast(doublings, TensorProto.INT64), np.int64(1))
    seen = body.node("Loop", [rounds, "", seen, above], 2, "", body=_jump())[0]
    return body.op("Slice", seen, [1], [np.iinfo(np.int64).max], [0])


def _jump() -> onnx.GraphProto:
    """Double the known length of all paths, see ``_ancestors``."""
    boolean, integer = TensorProto.BOOL, TensorProto.INT64
    nodes = [
        helper.make_node("Identity", ["more"], ["go_on"]),
        helper.make_node("Gather", ["seen", "above"], ["farther"], axis=0),
        helper.make_node("Or", ["seen", "farther"], ["seen_now"]),
        helper.make_node("Gather", ["above", "above"], ["above_now"], axis=0),
    ]
    inputs = [("round", integer), ("more", boolean), ("seen", boolean), ("above", integer)]
    outputs = [("go_on", boolean), ("seen_now", boolean), ("above_now", integer)]
    sizes = {"seen": ["R", "T"], "above": ["R"]}
    taken, given = (
        [
            helper.make_tensor_value_info(name, kind, sizes.get(name.removesuffix("_now"), []))
            for name, kind in side
        ]
        for side in (inputs, outputs)
    )
    return helper.make_graph(nodes, "jump", taken, given)
