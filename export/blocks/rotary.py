"""Rotary tables of the layers: frequencies, their factors, and layers that rotate nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError
from edgedec.export.blocks.base import BlockBuilder
from edgedec.export.hyperparameters import Hyperparameters
from edgedec.export.model import VectorWeight

ROPE_FACTORS = "rope_freqs.weight"
"""Name of the tensor f32[d/2] of divisors of the frequencies, in Llama 3 models."""
SHORT_FACTORS, LONG_FACTORS = "rope_factors_short.weight", "rope_factors_long.weight"
"""Names of the divisors of LongRoPE: up to the original context, which a bundle is limited to, and beyond."""

_NEVER = 1e20
"""Divisors from here on mean that a pair is not rotated."""


def inverse_frequencies(
    base: float, head_dim: int, divisor: float = 1.0, factors: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Return f32[d/2]: base^(-2i/d), divided by ``divisor`` (linear scaling) and by ``factors`` f32[d/2]."""
    exponents = np.arange(0, head_dim, 2, dtype=np.float64) / head_dim
    frequencies = base**-exponents / divisor
    if factors is not None:
        frequencies = np.where(factors < _NEVER, frequencies / factors.astype(np.float64), 0.0)
    return frequencies.astype(np.float32)


def head_order(hyper: Hyperparameters) -> NDArray[np.int64]:
    """Return the order int64[d] of a head's elements in which the kernels rotate only a part of it.

    Such a head has rotated pairs (i, i + r/2) with r = ``rotary_dim``, and then elements that stay. In this
    order pairs are (i, i + d/2), and those that stay come last.
    """
    half, rest = hyper.rotary_dim // 2, (hyper.head_dim - hyper.rotary_dim) // 2
    first, second, stay = np.split(np.arange(hyper.head_dim), [half, hyper.rotary_dim])
    return np.concatenate([first, stay[:rest], second, stay[rest:]])


def rotary_tables(builder: BlockBuilder) -> list[str]:
    """Return each layer's rotary table: the plain one, that of windows, or one that rotates nothing."""
    hyper = builder.hyper
    factors = hyper.yarn.divisors(hyper.rope_base, hyper.rotary_dim) if hyper.yarn else None
    for name in (ROPE_FACTORS, *((LONG_FACTORS, SHORT_FACTORS) if builder.arch.long_rope else ())):
        if builder.tensors.has(name):  # the last one counts
            factors = builder.tensors.vector(name, hyper.rotary_dim // 2).values
            if factors.min() <= 0:
                raise BadFileError(f"tensor {name} holds values that are not positive")
    values = inverse_frequencies(hyper.rope_base, hyper.rotary_dim, hyper.rope_divisor, factors)
    tables = [_table(builder, "rotary", values, hyper.head_dim)] * hyper.layers
    if hyper.local_rope_base is not None:
        head_dim = hyper.keys_of(local=True).head_dim
        values = inverse_frequencies(hyper.local_rope_base, head_dim)
        local = _table(builder, "rotary_local", values, head_dim)
        tables = [local if window else plain for plain, window in zip(tables, hyper.windows, strict=True)]
    if period := builder.arch.no_rope_period:
        still = _table(builder, "rotary_none", np.zeros_like(values), hyper.head_dim)
        tables = [table if (layer + 1) % period else still for layer, table in enumerate(tables)]
    return tables


def _table(builder: BlockBuilder, name: str, frequencies: NDArray[np.float32], head_dim: int) -> str:
    """Add a table for ``frequencies`` f32[rotary dim / 2]; the other pairs of a head have frequency 0."""
    others = head_dim // 2 - frequencies.size
    builder.model.weights[f"{name}.inv_freq"] = VectorWeight(np.pad(frequencies, (0, others)))
    table = builder.op("RotaryTable", name, ["positions", f"{name}.inv_freq"])
    if builder.hyper.rotary_scale == 1.0:
        return table
    turned = np.arange(frequencies.size + others) < frequencies.size
    scale = np.where(np.tile(turned, 2), builder.hyper.rotary_scale, 1.0).astype(np.float32)
    builder.model.weights[f"{name}.scale"] = VectorWeight(scale)
    return builder.op("Mul", f"{name}_scaled", [table, f"{name}.scale"], domain="")
