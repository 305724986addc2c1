"""What things weigh."""

from __future__ import annotations

from typing import Literal

from edgedec.core.types import ModelSpec

KvType = Literal["fp16", "int8"]
"""How the cache keeps keys and values: rounded to fp16, or to int8 with an fp16 scale for every 32."""


def kv_row_bytes(head_dim: int, kv: KvType = "fp16") -> int:
    """Bytes of the key, or the value, of one token and head."""
    return head_dim + 2 * -(-head_dim // 32) if kv == "int8" else 2 * head_dim


def kv_row_name(head_dim: int) -> str:
    """What a graph that takes every type calls the last dimension of its cache, in units of two bytes."""
    return f"row_{kv_row_bytes(head_dim) // 2}_or_{kv_row_bytes(head_dim, 'int8') // 2}"


def kv_bytes(spec: ModelSpec, capacity: int, kv: KvType = "fp16") -> int:
    """Bytes of the keys and values of ``capacity`` tokens in all layers.

    An upper bound on what a process holds: pages of positions never reached stay untouched.
    """
    return spec.n_layers * 2 * spec.n_kv_heads * capacity * kv_row_bytes(spec.head_dim, kv)
