"""Bodies of the ops of encoders: layer norms, activations, pooling, and attention of whole texts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from onnx import TensorProto

from edgedec.export.portable.attention import rms_norm
from edgedec.export.portable.body import Body

_FUNCTIONS = {"silu": "", "tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu"}


def layer_norm(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """Compute ``LayerNorm``: x, weight, bias and what is added to x."""
    x, weight, bias, added = [*inputs, "", ""][:4]
    x = body.op("Add", x, added) if added else x
    names = [x, weight, *([bias] if bias else [])]
    return [body.op("LayerNormalization", *names, axis=-1, epsilon=float(attrs["epsilon"]))]


def activate(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """Compute ``Activate``: x, and a factor."""
    x, factor = [*inputs, ""][:2]
    match attrs["function"]:
        case "gelu" | "gelu_tanh" as kind:
            y = body.op("Gelu", x, approximate="none" if kind == "gelu" else "tanh")
        case "silu":
            y = body.op("Mul", x, body.op("Sigmoid", x))
        case kind:
            y = body.op(_FUNCTIONS[kind], x)
    return [body.op("Mul", y, factor) if factor else y]


def pool(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """Compute ``Pool``: rows and the offsets of texts."""
    x, offsets = inputs
    begins = body.op("Slice", offsets, [0], [-1], [0])
    ends = body.op("Slice", offsets, [1], [np.iinfo(np.int64).max], [0])
    if attrs["pooling"] == "cls":
        return [body.op("Gather", x, begins, axis=0)]
    if attrs["pooling"] == "last":
        return [body.op("Gather", x, body.op("Sub", ends, 1), axis=0)]
    place = body.op("Unsqueeze", _range(body, x), [0])
    inside = body.op(
        "And",
        body.op("GreaterOrEqual", place, body.op("Unsqueeze", begins, [1])),
        body.op("Less", place, body.op("Unsqueeze", ends, [1])),
    )
    sums = body.op("MatMul", body.cast(inside, TensorProto.FLOAT), x)
    counts = body.cast(body.op("Sub", ends, begins), TensorProto.FLOAT)
    return [body.op("Div", sums, body.op("Unsqueeze", counts, [1]))]


def _range(body: Body, x: str) -> str:
    """Return the numbers of all rows of ``x``."""
    return body.op("Range", np.int64(0), body.op("Squeeze", body.size(x, 0)), np.int64(1))


def segment_attention(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """Compute ``SegmentAttention``: q, k and v, a rotary table, offsets, and norms of heads."""
    qkv, rotary, offsets, *norms = inputs
    heads, kv_heads, dim = (int(attrs[name]) for name in ("num_heads", "num_kv_heads", "head_dim"))
    split = body.reshape(qkv, 0, heads + 2 * kv_heads, dim)
    ends = [0, heads, heads + kv_heads, heads + 2 * kv_heads]
    q, k, v = (body.slice(split, a, b, 1) for a, b in pairwise(ends))
    epsilon = float(attrs.get("epsilon", 1e-6))
    q, k = (
        rms_norm(body, {"epsilon": epsilon}, [one, norm])[0] if norm else one
        for one, norm in zip((q, k), [*norms, "", ""], strict=False)
    )
    q, k = (_rotated(body, one, rotary, dim, bool(attrs.get("interleaved", 0))) for one in (q, k))
    k, v = (_repeated(body, one, heads // kv_heads, dim) for one in (k, v))
    half = [body.cast(body.cast(one, TensorProto.FLOAT16), TensorProto.FLOAT) for one in (k, v)]
    q, k, v = (body.op("Transpose", one, perm=[1, 0, 2]) for one in (q, *half))
    scaled = body.op("Mul", q, float(attrs["scale"]))
    scores = body.op("MatMul", scaled, body.op("Transpose", k, perm=[0, 2, 1]))
    if cap := float(attrs.get("softcap", 0.0)):
        scores = body.op("Mul", body.op("Tanh", body.op("Div", scores, cap)), cap)
    masked = body.op("Where", _seen(body, qkv, offsets, attrs), scores, float(-np.inf))
    mixed = body.op("MatMul", body.op("Softmax", masked, axis=-1), v)
    return [body.reshape(body.op("Transpose", mixed, perm=[1, 0, 2]), 0, heads * dim)]


def _rotated(body: Body, x: str, rotary: str, dim: int, interleaved: bool) -> str:
    halves = ((0, dim // 2), (dim // 2, dim))
    cosine, sine = (body.op("Unsqueeze", body.slice(rotary, a, b, 1), [1]) for a, b in halves)
    if interleaved:
        pairs = body.reshape(x, 0, 0, dim // 2, 2)
        a, b = (body.element(pairs, i, 3) for i in range(2))
    else:
        a, b = (body.slice(x, i * dim // 2, (i + 1) * dim // 2, 2) for i in range(2))
    first = body.op("Sub", body.op("Mul", a, cosine), body.op("Mul", b, sine))
    second = body.op("Add", body.op("Mul", a, sine), body.op("Mul", b, cosine))
    if not interleaved:
        return body.op("Concat", first, second, axis=2)
    both = body.op("Concat", *(body.op("Unsqueeze", one, [3]) for one in (first, second)), axis=3)
    return body.reshape(both, 0, 0, dim)


def _repeated(body: Body, x: str, times: int, dim: int) -> str:
    """Return each kv head as often as query heads read it."""
    if times == 1:
        return x
    wide = body.op("Concat", *[body.op("Unsqueeze", x, [2])] * times, axis=2)
    count = body.op("Concat", body.size(x, 0), [-1], [dim], axis=0)
    return body.op("Reshape", wide, count)


def _seen(body: Body, x: str, offsets: str, attrs: dict[str, Any]) -> str:
    """Return which tokens see which: bool[tokens, tokens]."""
    place = _range(body, x)
    begun = body.op("GreaterOrEqual", body.op("Unsqueeze", place, [1]), body.op("Unsqueeze", offsets, [0]))
    text = body.op("ReduceSum", body.cast(begun, TensorProto.INT64), [1], keepdims=0)
    across, down = body.op("Unsqueeze", text, [0]), body.op("Unsqueeze", text, [1])
    seen = body.op("Equal", across, down)
    ahead = body.op("Sub", body.op("Unsqueeze", place, [0]), body.op("Unsqueeze", place, [1]))
    for name, sign in (("before", -1), ("after", 1)):
        if (most := int(attrs.get(name, -1))) >= 0:
            far = body.op("Mul", ahead, np.int64(sign))
            seen = body.op("And", seen, body.op("LessOrEqual", far, np.int64(most)))
    return seen
