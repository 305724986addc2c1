"""For devices that cannot compute with fp16, such as GPUs without the WebGPU feature ``shader-f16``."""

from __future__ import annotations

import onnx
from onnx import TensorProto

from edgedec.export.model import CACHE, RINGS


def with_float_cache(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a bundle's model.onnx whose caches and kv_new are float32; it refers to the same weights.

    Such a model runs by its bodies alone: the kernels take an fp16 cache.
    """
    out = onnx.ModelProto()
    out.CopyFrom(model)
    for value in (*out.graph.input, *out.graph.output):
        if value.name in (CACHE, RINGS, "kv_new"):
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for function in out.functions:
        for node in function.node if function.name == "TreeAttention" else ():
            for attribute in node.attribute if node.op_type == "Cast" else ():
                if attribute.i == TensorProto.FLOAT16:
                    attribute.i = TensorProto.FLOAT
    return out
