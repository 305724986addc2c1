"""Gains that drafters promise before they run: kernels/core/draft/trimmed_head.h and exit_drafter.h."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int32

from edgedec.core_lib.binding import INT, LONG, POINTER, REAL, Functions

_PROMISE = Functions(
    "edgedec_promise_",
    break_even=(REAL, REAL, REAL),
    first_ids=(REAL, REAL, REAL, REAL),
    least_saved=(REAL,),
    read_bytes=(None, LONG, *[REAL] * 4, POINTER),
    exits=(INT, POINTER, LONG, *[REAL] * 3, POINTER),
)


def break_even(step: float, trimmed: float) -> float:
    """Return the rate of tokens outside the subset at which a trimmed head is no longer worth its savings.

    ``step``, ``trimmed``: cost of a draft step with the full and with the trimmed head, in passes of the
    target. At this rate, 0 to 1, a usual chain gains as much with both.
    """
    return float(_PROMISE.break_even(step, trimmed))


def first_ids(own: float, head: float, vocabulary: int) -> int:
    """Return how many first ids of a large vocabulary the head of a layer is trimmed to; 0 for a smaller one.

    ``own``, ``head``: cost of a step of the layer and of the whole head, in passes of the target. First ids
    are the frequent ones: merges are learned in the order of how often they occur.
    """
    return int(_PROMISE.first_ids(own, head, vocabulary))


def least_saved() -> float:
    """Return the least share of a pass that a trimmed head saves where the last exit drafts unnamed."""
    return float(_PROMISE.least_saved())


def read_bytes(layers: int, layer: float, head: int, weights: float, kv_cache: int) -> tuple[float, float]:
    """Return what a pass over one token reads of a layer with its part of the cache, and of the head.

    ``layer``, ``head``: numbers of weights; ``weights``: bytes that a pass reads of all of them.
    """
    found = (REAL * 2)()
    _PROMISE.read_bytes(layers, layer, head, weights, kv_cache, found)
    return found[0], found[1]


def promising_exits(exits: Sequence[int], read: tuple[float, float], kept: float) -> list[int]:
    """Return those of ``exits`` that can pay, best first, by the bytes that a pass reads (``read_bytes``).

    ``kept``: the share of the ids that a trimmed head keeps; 1 without one.
    """
    count = len(exits)
    all_, chosen = (c_int32 * count)(*exits), (c_int32 * count)()
    return list(chosen[: _PROMISE.exits(all_, count, *read, kept, chosen)])
