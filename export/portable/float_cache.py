"""Changes a bundle's graph for devices without fp16, such as GPUs without WebGPU's ``shader-f16``."""

from __future__ import annotations

import onnx
from onnx import TensorProto

from edgedec.export.model import CACHE, RINGS


def with_float_cache(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a bundle's graph with float32 caches and kv_new; it refers to the same weights.

    Such a model runs by its bodies only: the kernels need an fp16 cache.
    """
    out = onnx.ModelProto()
    out.CopyFrom(model)
    for value in (*out.graph.input, *out.graph.output):
        if value.name in (CACHE, RINGS) or value.name.startswith("kv_new"):
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for function in out.functions:
        for node in function.node if function.name == "TreeAttention" else ():
            for attribute in node.attribute if node.op_type == "Cast" else ():
                if attribute.i == TensorProto.FLOAT16:
                    attribute.i = TensorProto.FLOAT
    return out
