"""Makes the keys and values that a pass adds to the KV cache an output of the graph."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from edgedec.export.model import CACHE, RINGS, ExportModel, attributes
from edgedec.export.passes.infra import Pass, PassError, check_well_formed

OUTPUT, WINDOW_OUTPUT = "kv_new", "kv_new_window"
_CACHE, _SHARED = 4, 8
"""Inputs of TreeAttention: the cache, and the output of the layer whose keys it reads."""


class ReturnNewKv(Pass):
    """Adds the output kv_new f16[L, 2, Hkv, N, row]: rows that the caller must store in the caches.

    Layers of kv_cache come first, then those of kv_window. Where their rows or heads differ, the latter have
    an output of their own, kv_new_window. Bodies of standard ops cannot write an input, so N is the number of
    tokens of the pass. The kernels write the caches themselves, and N is 0. A layer that shares the keys of
    an earlier one has none to return: that layer's are one of its inputs.
    """

    def call(self, model: ExportModel) -> bool:
        every = [node for node in model.nodes if node.op_type == "TreeAttention"]
        owners = [node for node in every if not _shares(node)]
        if not owners or any(len(node.output) > 1 for node in owners):
            return False
        for node in owners:
            node.output.append(f"{node.name}.{OUTPUT}")
        by_place = {_place(node): node.output[1] for node in owners}
        for node in every:
            if _shares(node):
                node.input.extend([""] * (_SHARED + 1 - len(node.input)))
                node.input[_SHARED] = by_place[_place(node)]
        whole, local = ([node for node in owners if node.input[_CACHE] == name] for name in (CACHE, RINGS))
        if len({_sizes(model, node) for node in owners}) == 1:
            _add_output(model, OUTPUT, [*whole, *local])
        else:
            _add_output(model, OUTPUT, whole)
            _add_output(model, WINDOW_OUTPUT, local)
        return True

    def ensures(self, model: ExportModel) -> None:
        check_well_formed(model)
        attentions = [node for node in model.nodes if node.op_type == "TreeAttention"]
        if any(len(node.output) != (1 if _shares(node) else 2) for node in attentions):
            raise PassError("an attention keeps its new keys and values to itself")


def _shares(node: onnx.NodeProto) -> bool:
    return bool(attributes(node).get("shared"))


def _place(node: onnx.NodeProto) -> tuple[str, object]:
    """Return the cache of a node, and the index of its layer there."""
    return node.input[_CACHE], attributes(node)["layer"]


def _sizes(model: ExportModel, node: onnx.NodeProto) -> tuple[int | str, ...]:
    """Return the dimensions of the cache of a node, but layers and slots."""
    shape = next(value for value in model.inputs if value.name == node.input[_CACHE]).type.tensor_type.shape
    _, two, heads, _, row = (dim.dim_param or dim.dim_value for dim in shape.dim)
    return two, heads, row


def _add_output(model: ExportModel, name: str, owners: list[onnx.NodeProto]) -> None:
    parts = [node.output[1] for node in owners]
    model.nodes.append(helper.make_node("Concat", parts, [name], name=name, axis=0))
    two, heads, row = _sizes(model, owners[0])
    shape = [len(parts), two, heads, "new_rows", row]
    model.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape))
