"""Attention over the KV cache: q, k and v, the heads, and their output."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from edgedec.export.blocks.base import BlockBuilder, softcap
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
    """Add a layer's attention. Layers with a window have a cache of their own, with rings of slots."""
    hyper, block = builder.hyper, f"blk.{layer}."
    window = hyper.windows[layer]
    queries, keys = hyper.heads * hyper.head_dim, hyper.kv_heads * hyper.head_dim
    qkv = _qkv(builder, block, x, queries, keys)
    inputs = [qkv, rotary, "parents", "length", RINGS if window else CACHE]
    if builder.arch.qk_norm:
        inputs += [_head_norm(builder, f"{block}attn_{n}_norm.weight") for n in ("q", "k")]
    if not window:
        inputs += [*([] if builder.arch.qk_norm else ["", ""]), ATTENTION]
    heads = builder.op(
        "TreeAttention",
        block + "attention",
        inputs,
        layer=hyper.place(layer),
        num_heads=hyper.heads,
        num_kv_heads=hyper.kv_heads,
        head_dim=hyper.head_dim,
        scale=hyper.attention_scale,
        window=window,
        ring=int(window > 0),
        interleaved=int(builder.arch.interleaved),
        epsilon=hyper.epsilon,
        **softcap(hyper.attention_softcap),
    )
    if builder.arch.gated_attention:
        heads = gated(builder, block, x, heads)
    return builder.linear(block + "attn_output", heads, (hyper.hidden, queries))


def _qkv(builder: BlockBuilder, block: str, x: str, queries: int, keys: int) -> str:
    hidden = builder.hyper.hidden
    if builder.arch.gated_attention:
        return gated_qkv(builder, block, x, _QKV_TERMS)
    if builder.arch.fused:
        rows = queries + 2 * keys
        whole = builder.hyper.rotary_dim == builder.hyper.head_dim
        order = None if whole else partial(paired_rows, builder.hyper, rows)
        part = Part(block + "attn_qkv.weight", 0, rows, order)
        return builder.linear(block + "attn_qkv", x, (rows, hidden), terms=_QKV_TERMS, part=part)
    parts = [
        builder.linear(block + name, x, (rows, hidden), builder.arch.qkv_bias, terms=_QKV_TERMS)
        for name, rows in (("attn_q", queries), ("attn_k", keys), ("attn_v", keys))
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


def _head_norm(builder: BlockBuilder, name: str) -> str:
    """Add the weight of a norm on the heads of q or k, in the order of their elements."""
    found = builder.vector(name, builder.hyper.head_dim)
    if builder.arch.gated_attention:
        values = builder.tensors.vector(name, builder.hyper.head_dim).values
        builder.model.weights[name] = VectorWeight(values[head_order(builder.hyper)])
    return found
