"""Layers without keys of their own compute only the rows that the head is asked for, and those behind them.

No later token reads anything of such layers, so most tokens of a prompt end before the first of them.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from edgedec.export.blocks.base import BlockBuilder

FIRST = "first_row"
"""The first row that is asked for, int64[1]; the number of tokens if none is. Names of nodes begin so."""


def first_asked(builder: BlockBuilder) -> None:
    """Add the nodes that compute ``FIRST``: 0 in a pass of several sequences, whose rows lie mixed."""
    plain = {"domain": ""}
    count = builder.op("Shape", f"{FIRST}_count", ["tokens"], **plain)
    every = builder.op("Concat", f"{FIRST}_all", ["rows", count], **plain, axis=0)
    least = builder.op("ReduceMin", f"{FIRST}_least", [every], **plain, keepdims=1)
    lengths = builder.op("Shape", f"{FIRST}_lengths", ["length"], **plain)
    alone = builder.op("Equal", f"{FIRST}_alone", [lengths, builder.constant(f"{FIRST}_one", [1])], **plain)
    factor = builder.op("Cast", f"{FIRST}_factor", [alone], **plain, to=TensorProto.INT64)
    builder.op("Mul", FIRST, [least, factor], **plain)


def from_first(builder: BlockBuilder, name: str, x: str) -> str:
    """Return the rows of ``x`` from ``FIRST`` on."""
    end = builder.constant(f"{name}_end", [np.iinfo(np.int64).max])
    axes = builder.constant(f"{name}_axes", [0])
    return builder.op("Slice", name, [x, FIRST, end, axes], domain="")


def asked_among(builder: BlockBuilder) -> str:
    """Return the rows that are asked for, counted from ``FIRST``."""
    return builder.op("Sub", f"{FIRST}_rows", ["rows", FIRST], domain="")
