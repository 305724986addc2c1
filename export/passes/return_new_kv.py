"""Makes the keys and values that a pass adds to the KV cache an output of the graph."""

from __future__ import annotations

from onnx import TensorProto, helper

from edgedec.export.model import CACHE, ExportModel
from edgedec.export.passes.infra import Pass, PassError, check_well_formed

OUTPUT = "kv_new"


class ReturnNewKv(Pass):
    """Adds the output kv_new f16[L, 2, Hkv, N, row]: rows that the caller must store in the caches.

    Layers of kv_cache come first, then those of kv_window. Bodies of standard ops cannot write an input, so N
    is the number of tokens of the pass. The kernels write the caches themselves, and N is 0.
    """

    def call(self, model: ExportModel) -> bool:
        attentions = [node for node in model.nodes if node.op_type == "TreeAttention"]
        if not attentions or any(len(node.output) > 1 for node in attentions):
            return False
        for node in attentions:
            node.output.append(f"{node.name}.{OUTPUT}")
        parts = [node.output[1] for node in sorted(attentions, key=lambda node: node.input[4] != CACHE)]
        model.nodes.append(helper.make_node("Concat", parts, [OUTPUT], name=OUTPUT, axis=0))
        cache = next(value for value in model.inputs if value.name == CACHE).type.tensor_type.shape
        sizes = [dim.dim_param or dim.dim_value for dim in cache.dim]
        shape = [len(parts), *sizes[1:3], "new_rows", sizes[4]]
        model.outputs.append(helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT16, shape))
        return True

    def ensures(self, model: ExportModel) -> None:
        check_well_formed(model)
        if any(n.op_type == "TreeAttention" and len(n.output) != 2 for n in model.nodes):
            raise PassError("an attention keeps its new keys and values to itself")
