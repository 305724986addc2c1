"""Body of HeadTopK: all logits, and their summary."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from edgedec.export.portable.attention import softcapped
from edgedec.export.portable.body import Body
from edgedec.export.portable.matrices import product

_LEAST = np.float32(-np.inf)


def head_topk(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """values, ids, logsumexp, entropy, logits. ``refine`` has no meaning where inputs are not rounded."""
    x, table, want, *keep = inputs
    logits = product(body, x, table, attrs["format"], attrs["rows"], attrs["cols"])
    logits = softcapped(body, logits, attrs)
    if keep and keep[0]:
        logits = _only(body, logits, keep[0], attrs["rows"])
    values, ids = body.node("TopK", [logits, body.constant([attrs["k"]])], 2, "", axis=1)
    ids = body.op("Where", body.op("IsInf", values), np.int64(-1), ids)
    best = body.op("ReduceMax", logits, [1], keepdims=1)
    # Entries outside ``keep`` are -inf: their share is 0, times a number.
    below = body.op("Max", body.op("Sub", logits, best), np.float32(-1e30))
    shares = body.op("Exp", below)
    total = body.op("ReduceSum", shares, [1], keepdims=1)
    log_total = body.op("Log", total)
    spread = body.op("Div", body.op("ReduceSum", body.op("Mul", shares, below), [1], keepdims=1), total)
    logsumexp = body.op("Squeeze", body.op("Add", best, log_total), [1])
    entropy = body.op("Squeeze", body.op("Sub", log_total, spread), [1])
    rows = body.op("Mul", body.size(logits, 0), body.op("Min", body.op("Abs", want), [1]))
    whole = body.op("Slice", logits, [0], rows, [0])
    return [values, body.cast(ids, TensorProto.INT32), logsumexp, entropy, whole]


def _only(body: Body, logits: str, keep: str, vocab: int) -> str:
    """-inf outside the ids of ``keep``."""
    out = np.zeros(vocab, dtype=np.bool_)
    kept = body.op("Expand", np.array(True), body.op("Shape", keep))
    return body.op("Where", body.op("ScatterElements", out, keep, kept, axis=0), logits, _LEAST)
