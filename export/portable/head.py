"""Body of HeadTopK: computes all logits and their summary."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from edgedec.export.portable.attention import softcapped
from edgedec.export.portable.body import Body
from edgedec.export.portable.matrices import product

_LEAST = np.float32(-np.inf)


def head_topk(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """Return values, ids, logsumexp, entropy and logits.

    The attribute ``refine`` has no effect here, because inputs are not rounded.
    """
    x, table, want, keep, temperature = [*inputs, "", ""][:5]
    logits = product(body, x, table, attrs["format"], attrs["rows"], attrs["cols"])
    logits = softcapped(body, logits, attrs)
    if keep:
        logits = _only(body, logits, keep, attrs["rows"])
    values, ids, logsumexp, entropy = summary(body, logits, attrs["k"], temperature)
    ids = body.op("Where", body.op("IsInf", values), np.int64(-1), ids)
    rows = body.op("Mul", body.size(logits, 0), body.op("Min", body.op("Abs", want), [1]))
    whole = body.op("Slice", logits, [0], rows, [0])
    return [values, body.cast(ids, TensorProto.INT32), logsumexp, entropy, whole]


def summary(body: Body, logits: str, k: int, temperature: str = "") -> list[str]:
    """Return values f32[R, k], ids i64[R, k], logsumexp f32[R] and entropy f32[R] of ``logits`` f32[R, V].

    With a ``temperature`` f32[1], logsumexp and entropy are those of ``logits`` divided by it.
    """
    values, ids = body.node("TopK", [logits, body.constant([k])], 2, "", axis=1)
    best = body.op("ReduceMax", logits, [1], keepdims=1)
    if temperature:
        logits, best = (body.op("Div", value, temperature) for value in (logits, best))
    # An entry of -inf (outside ``keep``) has a share of 0, and 0 times -inf would be NaN.
    below = body.op("Max", body.op("Sub", logits, best), np.float32(-1e30))
    shares = body.op("Exp", below)
    total = body.op("ReduceSum", shares, [1], keepdims=1)
    log_total = body.op("Log", total)
    spread = body.op("Div", body.op("ReduceSum", body.op("Mul", shares, below), [1], keepdims=1), total)
    logsumexp = body.op("Squeeze", body.op("Add", best, log_total), [1])
    entropy = body.op("Squeeze", body.op("Sub", log_total, spread), [1])
    return [values, ids, logsumexp, entropy]


def _only(body: Body, logits: str, keep: str, vocab: int) -> str:
    """Return the logits with -inf for all ids outside ``keep``, which is empty where it keeps all."""
    out = body.op("Expand", np.array(False), [vocab])
    kept = body.op("Expand", np.array(True), body.op("Shape", keep))
    kept = body.op("ScatterElements", out, keep, kept, axis=0)
    kept = body.op("Or", kept, body.op("Equal", body.size(keep, 0), [0]))
    return body.op("Where", kept, logits, _LEAST)
