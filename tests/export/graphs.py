"""Tiny graphs for the tests of passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from gguf.constants import GGMLQuantizationType
from onnx import TensorProto, helper

from edgedec.export.gguf_header import TensorInfo
from edgedec.export.model import DOMAIN, ExportModel, PackedWeight, VectorWeight


def matrix(rows: int = 32, cols: int = 64) -> PackedWeight:
    """A q4_0 weight that is never read."""
    shape = (rows, cols)
    return PackedWeight(TensorInfo("w", GGMLQuantizationType.Q4_0, shape, 0, rows * cols // 32 * 18), 0, rows)


def vector(*values: float) -> VectorWeight:
    return VectorWeight(np.array(values, dtype=np.float32))


def linear(
    name: str, x: str, weight: str, *, bias: str = "", residual: str = "", rows: int = 32, terms: int = 1
) -> onnx.NodeProto:
    attrs = {"formats": "q4_0", "rows": [rows], "cols": 64, "terms": terms}
    return node("QuantLinear", name, x, bias, residual, weight, **attrs)


def node(kind: str, name: str, *inputs: str, domain: str = DOMAIN, **attrs: Any) -> onnx.NodeProto:
    """A node whose one output has its name."""
    return helper.make_node(kind, list(inputs), [name], name=name, domain=domain, **attrs)


def make(
    nodes: list[onnx.NodeProto], outputs: list[str], **weights: PackedWeight | VectorWeight
) -> ExportModel:
    """A model with the input x; weights are named by keyword."""
    floats = TensorProto.FLOAT
    return ExportModel(
        inputs=[helper.make_tensor_value_info("x", floats, ["tokens", 64])],
        outputs=[helper.make_tensor_value_info(name, floats, None) for name in outputs],
        nodes=nodes,
        weights=dict(weights),
    )


def kinds(model: ExportModel) -> list[str]:
    return [node.op_type for node in model.nodes]
