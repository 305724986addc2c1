"""The MLP of a layer: act(gate x) times up x, then down."""

from __future__ import annotations

from edgedec.core.errors import UnsupportedError
from edgedec.export.blocks.base import BlockBuilder
from edgedec.export.tensors import Part


def gated_mlp(builder: BlockBuilder, block: str, x: str, ffn: int = 0) -> str:
    """Add the MLP whose tensors begin with ``block``, of width ``ffn``; 0: the model's."""
    hyper, ffn = builder.hyper, ffn or builder.hyper.ffn
    if builder.arch.activation == "clamped_silu":
        raise UnsupportedError(f"{builder.arch.name} models with layers without experts are not supported")
    halves: list[Part | None] = [None, None]
    if builder.arch.fused:
        halves = [Part(block + "ffn_up.weight", first, 2 * ffn) for first in (0, ffn)]
    gate = builder.linear(block + "ffn_gate", x, (ffn, hyper.hidden), part=halves[0])
    up = builder.linear(block + "ffn_up", x, (ffn, hyper.hidden), part=halves[1])
    if builder.arch.activation == "gelu_tanh":
        active = builder.op("Gelu", block + "active", [gate], domain="", approximate="tanh")
    else:
        sigmoid = builder.op("Sigmoid", block + "sigmoid", [gate], domain="")
        active = builder.op("Mul", block + "active", [gate, sigmoid], domain="")
    gated = builder.op("Mul", block + "gated", [active, up], domain="")
    return builder.linear(block + "ffn_down", gated, (hyper.hidden, ffn))
