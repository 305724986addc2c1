"""RMSNorm, Gather, GatedProduct and Mul: ops on rows."""

from __future__ import annotations

from edgedec.backends.gpu.build.builder import FLOAT, Builder
from edgedec.backends.gpu.program import GridCount
from edgedec.backends.onnx.graph import OpNode
from edgedec.core.errors import UnsupportedError

_THREADS = 64
_ACTIVATIONS = ("silu", "gelu_tanh", "sigmoid")


def rms_norm(build: Builder, node: OpNode) -> None:
    """Build RMSNorm, with its residual where it has one. A row may have several parts, each normed apart."""
    level, x, weight, residual = build.level(node), node.input(0), node.input(1), node.input(2)
    width = build.stored(weight).nbytes // FLOAT
    whole = build.buffers[x].bytes // FLOAT
    consts = {"DIM": width, "EPSILON": node.real("epsilon"), "RESIDUAL": bool(residual)}
    out = build.made(node.outputs[0], level, whole)
    build.step(
        "rms_norm/rms_norm",
        consts,
        (x, build.weight(weight), residual or x, out),
        (build.count(level, whole, width),),
        when="always" if level == "token" else "rows",
    )


def gather(build: Builder, node: OpNode) -> None:
    """Build the choice of the rows that the head reads."""
    x = node.input(0)
    width = build.buffers[x].bytes // FLOAT
    build.scratch("@rows", "row", FLOAT)
    out = build.made(node.outputs[0], "row", width)
    build.step(
        "gather_rows/gather_rows", {"DIM": width}, (x, "@rows", out), (build.count("row"),), when="rows"
    )


def gated_product(build: Builder, node: OpNode) -> None:
    """Build the product of values, which may be a part of others' rows, with their activated gate.

    Raises UnsupportedError.
    """
    level, gate, activation = build.levels[node.input(1)], node.input(1), node.text("activation")
    if activation not in _ACTIVATIONS:
        raise UnsupportedError(
            f"the activation {activation:.40} has no kernel for GPUs", hint="run the model on the CPU"
        )
    width = build.buffers[gate].bytes // FLOAT
    part = build.columns.get(node.input(0))
    consts = {"GELU": activation == "gelu_tanh", "SIGMOID": activation == "sigmoid", "COLUMNS": width}
    consts |= {"FIRST": part.part * width if part else 0, "STRIDE": part.parts * width if part else width}
    out = build.made(node.outputs[0], level, width)
    build.step(
        "gated_mlp/gated_product",
        consts,
        (part.source if part else node.input(0), gate, out),
        (GridCount("once", width, _THREADS), build.count(level)),
    )


def scale(build: Builder, node: OpNode) -> None:
    """Build the product of rows with one number. The host scales tables of rotations by itself."""
    x, factor = node.input(0), node.input(1)
    if x not in build.levels:
        return
    width = build.buffers[x].bytes // FLOAT
    out = build.made(node.outputs[0], build.levels[x], width)
    build.step(
        "rms_norm/scale",
        {"COLUMNS": width},
        (x, build.weight(factor), out),
        (GridCount("once", width, _THREADS), build.count(build.levels[x])),
    )
