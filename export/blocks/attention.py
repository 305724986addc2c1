"""Attention over the KV cache: q, k and v, the heads, and their output."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.export.blocks.base import BlockBuilder, softcap, without_end
from edgedec.export.blocks.gated_attention import gated, gated_qkv
from edgedec.export.blocks.rotary import head_order
from edgedec.export.hyperparameters import Hyperparameters
from edgedec.export.model import ATTENTION, CACHE, RINGS, VectorWeight
from edgedec.export.tensors import Part

_QKV_TERMS = 2
"""Int8 terms of the input of q, k and v: two terms are about 15 bits.

Rounding this input to 8 bits would lose more accuracy than rounding any other. Together with the head's
refinement, two terms halve the KL divergence of SmolLM2 from float32.
"""


def attention(builder: BlockBuilder, layer: int, x: str, rotary: str) -> str:
    """Add a layer's attention. Layers with a window have a cache of their own, with rings of slots.

    ``x`` holds the factor on what the layer adds, so q, k and v do; scores are rid of its square.
    """
    hyper, arch, block = builder.hyper, builder.arch, f"blk.{layer}."
    window, shared = hyper.windows[layer], hyper.source(layer) != layer
    kv_heads, head_dim = hyper.heads_of(layer)
    if builder.both_ways is not None:
        heads = _of_whole_texts(builder, layer, [_qkv(builder, layer, x), rotary, "offsets"])
        return builder.linear(
            block + "attn_output", heads, (hyper.hidden, hyper.heads * head_dim), arch.output_bias
        )
    qkv = _queries(builder, layer, x) if shared else _qkv(builder, layer, x)
    inputs = [qkv, rotary, "parents", "length", RINGS if window else CACHE]
    names = {"q": arch.qk_norm, "k": arch.qk_norm and not shared}
    inputs += [
        _head_norm(builder, f"{block}attn_{name}_norm.weight", head_dim) if normed else ""
        for name, normed in names.items()
    ]
    inputs.append(ATTENTION if not window and not shared else "")
    if arch.sinks:
        inputs += ["", builder.vector(f"{block}attn_sinks.weight", hyper.heads)]
    flags = {"value_norm": arch.value_norm and not shared, "shared": shared}
    stated: dict[str, Any] = {name: 1 for name, on in flags.items() if on}
    heads = builder.op(
        "TreeAttention",
        block + "attention",
        without_end(inputs),
        layer=hyper.place(layer),
        num_heads=hyper.heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        scale=hyper.attention_scale / hyper.residual_scale**2,
        window=window,
        ring=int(window > 0),
        interleaved=int(arch.interleaved),
        epsilon=hyper.epsilon,
        **softcap(hyper.attention_softcap),
        **stated,
    )
    if arch.gated_attention:
        heads = gated(builder, block, x, heads)
    shape = (hyper.hidden, hyper.heads * head_dim)
    return builder.linear(block + "attn_output", heads, shape, arch.output_bias)


def _of_whole_texts(builder: BlockBuilder, layer: int, inputs: list[str]) -> str:
    """Add the heads of a layer in a graph over whole texts, which has no KV cache.

    A window of w tokens ends at the token itself; in both directions half of it lies on each side.
    """
    hyper, arch, block, window = builder.hyper, builder.arch, f"blk.{layer}.", builder.hyper.windows[layer]
    if arch.qk_norm:
        inputs += [builder.vector(f"{block}attn_{name}_norm.weight", hyper.head_dim) for name in "qk"]
    before, after = (window // 2, window // 2) if builder.both_ways else (window - 1, 0)
    return builder.op(
        "SegmentAttention",
        block + "attention",
        inputs,
        num_heads=hyper.heads,
        num_kv_heads=hyper.kv_heads,
        head_dim=hyper.head_dim,
        scale=hyper.attention_scale / hyper.residual_scale**2,
        before=before if window else -1,
        after=after if window or not builder.both_ways else -1,
        interleaved=int(arch.interleaved),
        epsilon=hyper.epsilon,
        **softcap(hyper.attention_softcap),
    )


def _queries(builder: BlockBuilder, layer: int, x: str) -> str:
    """Add the queries alone, of a layer that reads the keys of another. Files may hold keys all the same."""
    hyper, block = builder.hyper, f"blk.{layer}."
    builder.tensors.leave(block + name for name in ("attn_k.weight", "attn_v.weight", "attn_k_norm.weight"))
    rows = hyper.heads * hyper.heads_of(layer)[1]
    return builder.linear(block + "attn_q", x, (rows, hyper.hidden), terms=_QKV_TERMS)


def _qkv(builder: BlockBuilder, layer: int, x: str) -> str:
    hyper, block = builder.hyper, f"blk.{layer}."
    kv_heads, head_dim = hyper.heads_of(layer)
    hidden, queries, keys = hyper.hidden, hyper.heads * head_dim, kv_heads * head_dim
    if builder.arch.gated_attention:
        return gated_qkv(builder, block, x, _QKV_TERMS)
    if builder.arch.fused:
        rows = queries + 2 * keys
        whole = hyper.rotary_dim == hyper.head_dim
        order = None if whole else partial(paired_rows, hyper, rows)
        part = Part(block + "attn_qkv.weight", 0, rows, order)
        return builder.linear(block + "attn_qkv", x, (rows, hidden), terms=_QKV_TERMS, part=part)
    # Without a matrix of values, the keys before their norm are the values.
    alike = builder.arch.sizes_by_layer and not builder.tensors.has(block + "attn_v.weight")
    values = Part(block + "attn_k.weight", 0, keys) if alike else None
    parts = [
        builder.linear(block + name, x, (rows, hidden), builder.arch.qkv_bias, _QKV_TERMS, part)
        for name, rows, part in (("attn_q", queries, None), ("attn_k", keys, None), ("attn_v", keys, values))
    ]
    return builder.op("Concat", block + "qkv", parts, domain="", axis=1)


def paired_rows(hyper: Hyperparameters, rows: int) -> NDArray[np.int64]:
    """Return the order int64[rows] of q, k and v in which the kernels rotate only a part of each head.

    The same order in q and k changes no product.
    """
    turned = (hyper.heads + hyper.kv_heads) * hyper.head_dim
    order = np.arange(rows)
    order[:turned] = (order[: turned : hyper.head_dim, None] + head_order(hyper)).ravel()
    return order


def _head_norm(builder: BlockBuilder, name: str, head_dim: int) -> str:
    """Add the weight of a norm on the heads of q or k, in the order of their elements."""
    found = builder.vector(name, head_dim)
    if builder.arch.gated_attention:
        values = builder.tensors.vector(name, head_dim).values
        builder.model.weights[name] = VectorWeight(values[head_order(builder.hyper)])
    return found
