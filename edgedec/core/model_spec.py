"""The sizes and special tokens of a model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The facts of a model that the runtime needs. Sizes are in elements; ids are token ids.

    A manifest states every field. The defaults are those of a model without the feature.
    """

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
    """Width of the MLP. 0 where another runtime runs the model: nobody plans its memory."""
    n_window_layers: int = 0
    """Layers whose keys and values lie in rings, because they see only a window."""
    window: int = 0
    """Tokens that these layers see; 0 without such layers."""
    table_bytes: int = 0
    """Bytes of a table of embeddings that the head does not share; 0: the head shares it.

    On Linux passes read its rows from the file and keep none in memory.
    """
