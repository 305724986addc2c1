"""The two matrices that an adapter has for one of the model's, as they are read and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgedec.core.errors import BadFileError, UnsupportedError, UsageError
from edgedec.core.low_rank import F32, LowRank

AGAIN = "fetch the adapter again"
_MOST_RANK = 4096
_LARGEST_SCALE = 1000.0

Pairs = dict[str, dict[str, F32]]
"""By the name of a matrix: "a", f32[rank, inputs], and "b", f32[outputs, rank]."""


def rank_of(path: Path, name: str, pair: Mapping[str, F32]) -> int:
    """Return the rank that both matrices have. Raises BadFileError."""
    if pair.keys() != {"a", "b"}:
        raise BadFileError(f"{path} has one of two matrices for {name[:80]}", hint=AGAIN)
    rank: int = pair["a"].shape[0]
    if rank != pair["b"].shape[1] or not 1 <= rank <= _MOST_RANK:
        raise BadFileError(f"the two matrices for {name[:80]} in {path} have no common rank", hint=AGAIN)
    return rank


def change_of(path: Path, name: str, pair: Mapping[str, F32], scale: float) -> LowRank:
    """Return the change that a pair makes at a scale. Raises BadFileError for values that are not finite."""
    with np.errstate(over="ignore"):
        up = pair["b"] * np.float32(scale)
    if not (np.isfinite(pair["a"]).all() and np.isfinite(up).all()):
        raise BadFileError(f"{path} has values for {name[:80]} that are not finite", hint=AGAIN)
    return LowRank.of(np.asarray(pair["a"], np.float32), np.asarray(up, np.float32))


def number(path: Path, stated: Mapping[str, Any], key: str, otherwise: float) -> float:
    """Return a number of an adapter's settings. Raises BadFileError."""
    value = stated.get(key, otherwise)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadFileError(f"{key} of the adapter {path} is no number", hint=AGAIN)
    return float(value)


def more_than_low_rank(path: Path, name: str) -> UnsupportedError:
    """Return the error for a tensor that is neither matrix of a pair."""
    return UnsupportedError(
        f"{path} changes {name[:80]} by more than a product of two matrices",
        hint="use an adapter of linear layers, without modules_to_save",
    )


def nothing_in(path: Path) -> BadFileError:
    """Return the error for a file without any pair."""
    return BadFileError(f"{path} has no matrices of an adapter", hint=AGAIN)


def split_scale(named: str) -> tuple[Path, float]:
    """Return path and scale of ``FILE:SCALE``; a file may have ":" in its name. Raises UsageError."""
    path, colon, text = named.rpartition(":")
    if not colon or Path(named).exists():
        return Path(named), 1.0
    try:
        scale = float(text)
    except ValueError:
        return Path(named), 1.0  # a drive's letter, or a name with a colon
    if not math.isfinite(scale) or abs(scale) > _LARGEST_SCALE:
        raise UsageError(f"{text:.20} is no scale of an adapter", hint="use a number such as 0.5")
    return Path(path), scale
