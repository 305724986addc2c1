"""Gains that drafters promise before they run: kernels/core/draft/trimmed_head.h and exit_drafter.h."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

from edgedec.kernels.library import library_path

_INT, _LONG, _REAL, _POINTER = ctypes.c_int, ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


def chain_gain(step: float, outside: float = 0.0) -> float:
    """Return the tokens that a round with a usual chain of drafts commits for the time of a pass.

    ``step``: cost of a draft step in passes; ``outside``: rate of tokens that it cannot draft, 0 to 1.
    """
    return float(_function("chain_gain", _REAL, _REAL)(step, outside))


def break_even(step: float, trimmed: float) -> float:
    """Return the rate of tokens outside the subset at which a trimmed head is no longer worth its savings.

    ``step``, ``trimmed``: cost of a draft step with the full and with the trimmed head, in passes of the
    target. At this rate, 0 to 1, a usual chain gains as much with both.
    """
    return float(_function("break_even", _REAL, _REAL)(step, trimmed))


def first_ids(own: float, head: float, vocabulary: int) -> int:
    """Return how many first ids of a large vocabulary the head of a layer is trimmed to; 0 for a smaller one.

    ``own``, ``head``: cost of a step of the layer and of the whole head, in passes of the target. First ids
    are the frequent ones: merges are learned in the order of how often they occur.
    """
    return int(_function("first_ids", _REAL, _REAL, _REAL)(own, head, vocabulary))


def least_saved() -> float:
    """Return the least share of a pass that a trimmed head saves where the last exit drafts unnamed."""
    return float(_function("least_saved")())


def read_bytes(layers: int, layer: float, head: int, weights: float, kv_cache: int) -> tuple[float, float]:
    """Return what a pass over one token reads of a layer with its part of the cache, and of the head.

    ``layer``, ``head``: numbers of weights; ``weights``: bytes that a pass reads of all of them.
    """
    found = (_REAL * 2)()
    _function("read_bytes", _LONG, *[_REAL] * 4, _POINTER)(layers, layer, head, weights, kv_cache, found)
    return found[0], found[1]


def promising_exits(exits: Sequence[int], read: tuple[float, float], kept: float) -> list[int]:
    """Return those of ``exits`` that can pay, best first, by the bytes that a pass reads (``read_bytes``).

    ``kept``: the share of the ids that a trimmed head keeps; 1 without one.
    """
    count = len(exits)
    all_, chosen = (ctypes.c_int32 * count)(*exits), (ctypes.c_int32 * count)()
    choose = _function("exits", _POINTER, _LONG, *[_REAL] * 3, _POINTER, result=_INT)
    return list(chosen[: choose(all_, count, *read, kept, chosen)])


@cache
def _function(name: str, *arguments: Any, result: Any = _REAL) -> Any:
    found = getattr(ctypes.PyDLL(str(library_path())), f"edgedec_promise_{name}")
    found.restype, found.argtypes = result, arguments
    return found
