"""Layers after which a model can draft tokens, and layers whose outputs are its hidden states.

Also the names of their inputs and outputs in ``drafting.onnx``; ``export.drafting`` says what they are for.
"""

from __future__ import annotations

EXITS, TAPS = "exits", "taps"
"""Keys of the graph's metadata: numbers of layers, and indices of layers, separated by commas."""
KEEP = "keep"
LayerOutputs = bool | tuple[int, ...]
"""Whether to open a model with its graph for drafting; layers: with their outputs as hidden states, too."""
_PARTS = 8


def exits_of(layers: int) -> tuple[int, ...]:
    """Return the exits of a model of ``layers`` layers: each eighth of them, and all."""
    return tuple(sorted({max(1, round(layers * part / _PARTS)) for part in range(1, _PARTS + 1)}))


def taps_of(layers: int) -> tuple[int, int, int]:
    """Return the indices, ascending, of the layers whose outputs are the hidden states.

    One near the first, the middle one, and one near the last, as in EAGLE-3 (Li et al., 2025). In a model of
    few layers two of them may be the same.
    """
    first, middle, last = sorted(min(max(at, 0), layers - 1) for at in (2, layers // 2, layers - 3))
    return first, middle, last


def added_taps(taps: tuple[int, ...], exits: tuple[int, ...], layers: int) -> int:
    """Return how many of ``taps`` are neither usual nor the last layers before ``exits``."""
    return len(set(taps) - set(taps_of(layers)) - {exit - 1 for exit in exits})


def out(layer: int) -> str:
    """Name of the output of a layer."""
    return f"blk.{layer}.out"


def rows(exit: int) -> str:
    """Name of the input with the rows that go from an exit to the head."""
    return f"rows.{exit}"


def passing(exit: int) -> str:
    """Name of the input with the rows that go on to the layers above an exit."""
    return f"passing.{exit}"


def warm(exit: int) -> str:
    """Name of the input with rows that an earlier run computed up to an exit."""
    return f"warm.{exit}"


def new_kv(exit: int) -> str:
    """Name of the output with the keys and values of the layers up to an exit, from the exit before it on."""
    return f"kv_new.{exit}"


def shown(exit: int) -> str:
    """Name of the rows that go from an exit to the head."""
    return f"shown.{exit}"


def joined(exit: int) -> str:
    """Name of the rows above an exit: warm ones, then those of this run."""
    return f"joined.{exit}"
