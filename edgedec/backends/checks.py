"""Checks of a caller's arguments that every backend makes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.core.cache_config import CacheConfig, KvType
from edgedec.core.errors import Remedy, UnsupportedError, UsageError
from edgedec.core.forward import Capabilities
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import Keep
from edgedec.memory import whole_keys

DEFAULT_CAPACITY_TOKENS = 4096


def checked_capacity(spec: ModelSpec, capacity: int | None) -> int:
    """Return ``capacity`` in tokens; None: the model's context, at most 4096. Raises UsageError."""
    if capacity is None:
        return min(spec.context_length, DEFAULT_CAPACITY_TOKENS)
    if not 1 <= capacity <= spec.context_length:
        raise UsageError(
            f"a context of {capacity} tokens is not possible with this model",
            hint=f"use 1 to {spec.context_length}",
        )
    return capacity


def checked_kv(spec: ModelSpec, caps: Capabilities, cache: CacheConfig) -> KvType | None:
    """Return the format that ``cache`` gets; None: the runtime decides. Raises UnsupportedError."""
    if cache.kv is not None and cache.kv not in caps.kv_kinds:
        raise UnsupportedError(
            f"a cache in {cache.kv} is not possible: another runtime runs {spec.name}, and keeps its own",
            hint="leave the format to the runtime, or export the model for EdgeDec's kernels",
            remedy=(Remedy("kv"), Remedy("export")),
        )
    return cache.kv or next(iter(caps.kv_kinds), None)


def check_sequences(spec: ModelSpec, caps: Capabilities, count: int) -> None:
    """Raises UnsupportedError unless ``count`` sequences can share a pass, UsageError for a count below 1."""
    if count < 1:
        raise UsageError(f"{count} sequences are not possible", hint=f"use 1 to {caps.sequences}")
    if caps.sequences == 1:
        raise UnsupportedError(
            f"{spec.name} runs one sequence at a time",
            hint="export the model for EdgeDec's kernels",
            remedy=Remedy("export"),
        )
    if count > caps.sequences:
        raise UnsupportedError(f"{count} sequences in one pass: at most {caps.sequences}")


def check_threads(threads: int | None) -> None:
    """Raises UsageError for fewer than one thread."""
    if threads is not None and threads < 1:
        raise UsageError(f"cannot run on {threads} threads", hint="use at least 1")


def check_tokens(tokens: Sequence[int], most: int, vocab_size: int) -> None:
    """Raises ValueError for more than ``most`` tokens, or one outside the vocabulary."""
    if len(tokens) > most:
        raise ValueError(f"{len(tokens)} tokens in one pass: at most {most}")
    if len(tokens) and not (min(tokens) >= 0 and max(tokens) < vocab_size):
        raise ValueError(f"a token is outside the vocabulary of {vocab_size}")


def check_keep(keep: Keep, vocab_size: int) -> None:
    """Raises ValueError unless ``keep`` are ids of a trimmed head: int64, ascending, at least one."""
    inside = (
        keep.dtype == np.int64 and keep.ndim == 1 and keep.size and keep[0] >= 0 and keep[-1] < vocab_size
    )
    if not inside or (keep[1:] <= keep[:-1]).any():
        raise ValueError(f"ids to keep must be ascending int64 numbers within 0 to {vocab_size - 1}")


def check_kept(spec: ModelSpec, first: int, end: int, kept: NDArray[np.intp]) -> None:
    """Raises ValueError unless each head of ``kept`` has slots that ascend within [first, end)."""
    keys = whole_keys(spec)
    heads = keys.layers, keys.kv_heads
    if kept.ndim != 3 or kept.shape[:2] != heads:
        raise ValueError(f"slots of shape {kept.shape} for {heads[0]} layers of {heads[1]} heads")
    inside = kept.size == 0 or (kept.min() >= first and kept.max() < end)
    if not inside or (kept[:, :, 1:] <= kept[:, :, :-1]).any():
        raise ValueError(f"slots to keep must be ascending within {first} to {end - 1}")
