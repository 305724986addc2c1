"""What every backend checks of a caller: how much context, how many threads, which tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import UsageError
from edgedec.core.model_spec import ModelSpec

DEFAULT_CAPACITY = 4096


def checked_capacity(spec: ModelSpec, capacity: int | None) -> int:
    """``capacity`` in tokens, or what the model was made for, at most 4096. Raises UsageError."""
    if capacity is None:
        return min(spec.context_length, DEFAULT_CAPACITY)
    if not 1 <= capacity <= spec.context_length:
        raise UsageError(
            f"a context of {capacity} tokens is not possible with this model",
            hint=f"use 1 to {spec.context_length}",
        )
    return capacity


def check_threads(threads: int | None) -> None:
    """Raises UsageError for a number that is none."""
    if threads is not None and threads < 1:
        raise UsageError(f"cannot run on {threads} threads", hint="use at least 1")


def check_tokens(tokens: Sequence[int], most: int, vocab_size: int) -> None:
    """Raises ValueError for more than ``most`` tokens, or one outside the vocabulary."""
    if len(tokens) > most:
        raise ValueError(f"{len(tokens)} tokens in one pass: at most {most}")
    if len(tokens) and not (min(tokens) >= 0 and max(tokens) < vocab_size):
        raise ValueError(f"a token is outside the vocabulary of {vocab_size}")


def check_kept(spec: ModelSpec, first: int, end: int, kept: NDArray[np.intp]) -> None:
    """Raises ValueError unless these are slots [layers, kv heads, n] of [first, end), ascending per head."""
    heads = spec.n_layers, spec.n_kv_heads
    if kept.ndim != 3 or kept.shape[:2] != heads:
        raise ValueError(f"slots of shape {kept.shape} for {heads[0]} layers of {heads[1]} heads")
    inside = kept.size == 0 or (kept.min() >= first and kept.max() < end)
    if not inside or (kept[:, :, 1:] <= kept[:, :, :-1]).any():
        raise ValueError(f"slots to keep must be ascending within {first} to {end - 1}")
