"""Gated attention: the q projection is twice as wide, and its second half gates the heads' outputs."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from edgedec.export.blocks.base import BlockBuilder
from edgedec.export.blocks.rotary import head_order
from edgedec.export.hyperparameters import Hyperparameters
from edgedec.export.tensors import Part


def gated_qkv(builder: BlockBuilder, block: str, x: str, terms: int) -> str:
    """Add q, k and v. The tensor of q holds q and gate of each head in turn."""
    hyper = builder.hyper
    queries, keys = hyper.heads * hyper.head_dim, hyper.kv_heads * hyper.head_dim
    wide = Part(block + "attn_q.weight", 0, 2 * queries, partial(query_rows, hyper))
    turned = Part(block + "attn_k.weight", 0, keys, partial(key_rows, hyper))
    parts = [
        builder.linear(block + name, x, (rows, hyper.hidden), terms=terms, part=part)
        for name, rows, part in (
            ("attn_q", queries, wide),
            ("attn_k", keys, turned),
            ("attn_v", keys, None),
        )
    ]
    return builder.op("Concat", block + "qkv", parts, domain="", axis=1)


def gated(builder: BlockBuilder, block: str, x: str, heads: str) -> str:
    """Multiply the outputs of the ``heads`` by the sigmoid of the gate of ``x``."""
    hyper = builder.hyper
    queries = hyper.heads * hyper.head_dim
    part = Part(block + "attn_q.weight", 0, 2 * queries, partial(gate_rows, hyper))
    gate = builder.linear(block + "attn_q_gate", x, (queries, hyper.hidden), part=part)
    return builder.op("GatedProduct", block + "gated_heads", [heads, gate], activation="sigmoid")


def query_rows(hyper: Hyperparameters) -> NDArray[np.int64]:
    """Return the rows of q in its tensor, in the order in which the kernels rotate a head."""
    return (2 * np.arange(hyper.heads)[:, None] * hyper.head_dim + head_order(hyper)).ravel()


def gate_rows(hyper: Hyperparameters) -> NDArray[np.int64]:
    """Return the rows of the gate in the tensor of q."""
    heads = 2 * np.arange(hyper.heads)[:, None] + 1
    return (heads * hyper.head_dim + np.arange(hyper.head_dim)).ravel()


def key_rows(hyper: Hyperparameters) -> NDArray[np.int64]:
    """Return the rows of k in the order of ``query_rows``."""
    return (np.arange(hyper.kv_heads)[:, None] * hyper.head_dim + head_order(hyper)).ravel()
