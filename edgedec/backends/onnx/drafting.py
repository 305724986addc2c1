"""The exits and hidden states that ``drafting.onnx`` states, read without ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgedec.backends.onnx.graph_guard import other_model
from edgedec.bundle import exits as names
from edgedec.bundle.manifest import DRAFTING
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass

_MOST = 64


@dataclass(frozen=True, slots=True)
class Exits:
    """``exits``: numbers of layers, the last of them all; ``taps``: layers whose outputs are to be had."""

    exits: tuple[int, ...] = ()
    taps: tuple[int, ...] = ()
    hidden_size: int = 0


NO_EXITS = Exits()


def stated_exits(stated: Mapping[str, str], spec: ModelSpec) -> Exits:
    """Return the exits in the metadata of a graph; the layers below them can be tapped too.

    Raises BadFileError unless they are those of a model of these layers.
    """
    exits, taps = (_numbers(stated.get(key, ""), spec.n_layers) for key in (names.EXITS, names.TAPS))
    ascend = all(a < b for a, b in zip((0, *exits), exits, strict=False))
    # A peek would apply tokens to the states of lower layers, and not to those of the others.
    if (exits and spec.states) or exits[-1:] not in ((), (spec.n_layers,)):
        raise other_model(DRAFTING)
    if not ascend or not taps or max(taps) >= spec.n_layers:
        raise other_model(DRAFTING)
    return Exits(exits, tuple(sorted({*taps, *(exit - 1 for exit in exits)})), spec.hidden_size)


def exits_of_bundle(bundle: Path, spec: ModelSpec) -> Exits:
    """Return the exits that the graph for drafting of ``bundle`` states. Raises BadFileError."""
    from edgedec.backends.onnx.graph import read_metadata

    return stated_exits(read_metadata(bundle, DRAFTING), spec)


def _numbers(text: str, most: int) -> tuple[int, ...]:
    """Return the numbers in ``text``, within 0 to ``most``; none when it holds anything else."""
    parts = text.split(",")
    if len(parts) > _MOST or not all(p.isascii() and p.isdecimal() and len(p) < 6 for p in parts):
        return ()
    numbers = tuple(map(int, parts))
    return numbers if max(numbers) <= most else ()
