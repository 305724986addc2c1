"""The sizes and special tokens of a model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What the runtime must know of a model. Sizes are in elements; ids are token ids."""

    name: str
    architecture: str
    vocab_size: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    hidden_size: int
    context_length: int
    bos_id: int | None = None
    eos_ids: tuple[int, ...] = ()
    head_k: int = 64
    """Entries per row that the head returns in ``HeadRows.values``."""
    ffn_size: int = 0
    """Width of the MLP; 0: not known (bundles of earlier versions do not say)."""
    n_window_layers: int = 0
    """Layers, of all, whose keys and values lie in rings; 0 also in bundles of earlier versions, which keep
    the whole context in every layer."""
    window: int = 0
    """Tokens that these layers see."""
    table_bytes: int = 0
    """Bytes of the table of embeddings where the head has one of its own: passes read the rows of their
    tokens from the file (Linux), and none of it stays in memory. 0: the head reads it, or it is not known.
    """
