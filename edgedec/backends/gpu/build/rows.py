"""RMSNorm, Gather and GatedProduct: ops on whole rows."""

from __future__ import annotations

from edgedec.backends.gpu.build.builder import FLOAT, Builder
from edgedec.backends.gpu.program import GridCount
from edgedec.backends.onnx.graph import OpNode

_THREADS = 64


def rms_norm(build: Builder, node: OpNode) -> None:
    """Build RMSNorm, with its residual where it has one."""
    level, x, weight, residual = build.level(node), node.input(0), node.input(1), node.input(2)
    width = build.stored(weight).nbytes // FLOAT
    consts = {"DIM": width, "EPSILON": node.real("epsilon"), "RESIDUAL": bool(residual)}
    out = build.made(node.outputs[0], level, width)
    build.step(
        "rms_norm/rms_norm",
        consts,
        (x, build.weight(weight), residual or x, out),
        (build.count(level),),
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
    """Build the product of values with their activated gate."""
    level, values, activation = build.level(node), node.input(0), node.text("activation")
    width = build.buffers[values].bytes // FLOAT
    out = build.made(node.outputs[0], level, width)
    build.step(
        "gated_mlp/gated_product",
        {"COLUMNS": width, "GELU": activation == "gelu_tanh", "SIGMOID": activation == "sigmoid"},
        (values, node.input(1), out),
        (GridCount("once", width, _THREADS), build.count(level)),
    )
