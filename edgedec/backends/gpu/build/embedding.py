"""QuantEmbedding: rows of the table by token."""

from __future__ import annotations

from edgedec.backends.gpu.build.builder import FLOAT, Builder
from edgedec.backends.gpu.build.linear import table_pieces
from edgedec.backends.gpu.formats import FLOAT_KINDS, constants
from edgedec.backends.gpu.program import GridCount
from edgedec.backends.onnx.graph import OpNode
from edgedec.kernels.packing.formats import FORMATS


def quant_embedding(build: Builder, node: OpNode) -> None:
    """Build the look-up, a step for each part of the table that is bound by itself."""
    format, cols = node.text("format"), node.integer("cols")
    spec = FORMATS[format]
    build.scratch("@tokens", "token", FLOAT)
    out = build.made(node.outputs[0], "token", cols)
    for first, rows, weight in table_pieces(build, node.input(1), format, node.integer("rows"), cols):
        part = {"COLS": cols, "SCALE": node.real("scale", 1.0), "FIRST": first, "ROWS": rows}
        if spec.is_float:
            kernel, consts = "quant_embedding/float_embedding", {"KIND": FLOAT_KINDS[format], **part}
        else:
            kernel = "quant_embedding/quant_embedding"
            consts = {**constants(format), "RECORDS": spec.records(cols), **part}
        build.step(kernel, consts, (weight, "@tokens", out), (GridCount("tokens"),))
