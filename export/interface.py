"""Inputs and outputs of a decoder's graph."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from edgedec.export.hyperparameters import Hyperparameters
from edgedec.export.model import ATTENTION, CACHE, RINGS
from edgedec.memory import kv_row_name

HEAD_K = 64
"""Entries per row that the head returns; fewer for a smaller vocabulary."""


def graph_inputs(hyper: Hyperparameters) -> list[onnx.ValueInfoProto]:
    windows = sum(window > 0 for window in hyper.windows)
    rings = [_cache(hyper, RINGS, windows, "ring")] if windows else []
    layers = hyper.whole_layers
    shape: list[str | int | None] = [layers, hyper.kv_heads, "attended"]
    looked = [helper.make_tensor_value_info(ATTENTION, TensorProto.FLOAT, shape)] if layers else []
    return [
        helper.make_tensor_value_info("tokens", TensorProto.INT64, ["tokens"]),
        helper.make_tensor_value_info("positions", TensorProto.INT64, ["tokens"]),
        helper.make_tensor_value_info("parents", TensorProto.INT64, ["tokens"]),
        # One length, or one for each sequence of a batch: see the kernels' sequences.h.
        helper.make_tensor_value_info("length", TensorProto.INT64, ["lengths"]),
        helper.make_tensor_value_info("rows", TensorProto.INT64, ["rows"]),
        helper.make_tensor_value_info("want_logits", TensorProto.INT64, [1]),
        _cache(hyper, CACHE, layers, "capacity"),
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
        trail: list[str | int | None] = [kind.layers, "trail", kind.trail]
        found.append(helper.make_tensor_value_info(f"{kind.name}_trail", TensorProto.FLOAT, trail))
        if kind.state:
            state: list[str | int | None] = [kind.layers, "sequences", kind.state]
            found.append(helper.make_tensor_value_info(f"{kind.name}_state", TensorProto.FLOAT, state))
    return (
        [*found, helper.make_tensor_value_info("applied", TensorProto.INT64, ["sequences"])] if found else []
    )


def _cache(hyper: Hyperparameters, name: str, layers: int, slots: str) -> onnx.ValueInfoProto:
    row = kv_row_name(hyper.head_dim)  # the kernels tell the two kinds of row by their size
    return helper.make_tensor_value_info(name, TensorProto.FLOAT16, [layers, 2, hyper.kv_heads, slots, row])


def graph_outputs(vocab: int) -> list[onnx.ValueInfoProto]:
    k = min(HEAD_K, vocab)
    return [
        helper.make_tensor_value_info("values", TensorProto.FLOAT, ["rows", k]),
        helper.make_tensor_value_info("ids", TensorProto.INT32, ["rows", k]),
        helper.make_tensor_value_info("logsumexp", TensorProto.FLOAT, ["rows"]),
        helper.make_tensor_value_info("entropy", TensorProto.FLOAT, ["rows"]),
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["full_rows", vocab]),
    ]
