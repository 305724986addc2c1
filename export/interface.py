"""Inputs and outputs of a decoder's graph."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from edgedec.core.cache_kinds import Keys
from edgedec.export.hyperparameters import Hyperparameters
from edgedec.export.model import ATTENTION
from edgedec.memory import kv_row_name

Shape = list[str | int | None]
HEAD_K = 64
"""Entries per row that the head returns; fewer for a smaller vocabulary."""


def graph_inputs(hyper: Hyperparameters) -> list[onnx.ValueInfoProto]:
    whole, local = hyper.keys_of(local=False), hyper.keys_of(local=True)
    rings = [_cache(local, "ring")] if local.layers else []
    shape: Shape = [whole.layers, whole.kv_heads, "attended"]
    looked = [helper.make_tensor_value_info(ATTENTION, TensorProto.FLOAT, shape)] if whole.layers else []
    return [
        helper.make_tensor_value_info("tokens", TensorProto.INT64, ["tokens"]),
        helper.make_tensor_value_info("positions", TensorProto.INT64, ["tokens"]),
        helper.make_tensor_value_info("parents", TensorProto.INT64, ["tokens"]),
        # One length, or one for each sequence of a batch: see the kernels' sequences.h.
        helper.make_tensor_value_info("length", TensorProto.INT64, ["lengths"]),
        helper.make_tensor_value_info("rows", TensorProto.INT64, ["rows"]),
        helper.make_tensor_value_info("want_logits", TensorProto.INT64, [1]),
        _cache(whole, "capacity"),
        *rings,
        *_states(hyper),
        # A caller may leave out either of these two.
        helper.make_tensor_value_info("temperature", TensorProto.FLOAT, [1]),
        *looked,
    ]


def _states(hyper: Hyperparameters) -> list[onnx.ValueInfoProto]:
    """Return the inputs that recurrent layers write to, and the number of tokens their states cover."""
    found = []
    for kind in hyper.states:
        trail: Shape = [kind.layers, "trail", kind.trail]
        found.append(helper.make_tensor_value_info(f"{kind.name}_trail", TensorProto.FLOAT, trail))
        if kind.state:
            state: Shape = [kind.layers, "sequences", kind.state]
            found.append(helper.make_tensor_value_info(f"{kind.name}_state", TensorProto.FLOAT, state))
    return (
        [*found, helper.make_tensor_value_info("applied", TensorProto.INT64, ["sequences"])] if found else []
    )


def _cache(keys: Keys, slots: str) -> onnx.ValueInfoProto:
    row = kv_row_name(keys.head_dim)  # the kernels tell the two kinds of row by their size
    shape: Shape = [keys.layers, 2, keys.kv_heads, slots, row]
    return helper.make_tensor_value_info(keys.name, TensorProto.FLOAT16, shape)


def graph_outputs(vocab: int) -> list[onnx.ValueInfoProto]:
    k = min(HEAD_K, vocab)
    return [
        helper.make_tensor_value_info("values", TensorProto.FLOAT, ["rows", k]),
        helper.make_tensor_value_info("ids", TensorProto.INT32, ["rows", k]),
        helper.make_tensor_value_info("logsumexp", TensorProto.FLOAT, ["rows"]),
        helper.make_tensor_value_info("entropy", TensorProto.FLOAT, ["rows"]),
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["full_rows", vocab]),
    ]
