"""What things weigh."""

from __future__ import annotations

from edgedec.core.types import ModelSpec

KV_ELEMENT_BYTES = 2
"""Keys and values are kept in fp16."""


def kv_bytes(spec: ModelSpec, capacity: int) -> int:
    """Bytes of the keys and values of ``capacity`` tokens in all layers.

    An upper bound on what a process holds: pages of positions never reached stay untouched.
    """
    return spec.n_layers * 2 * spec.n_kv_heads * spec.head_dim * capacity * KV_ELEMENT_BYTES
