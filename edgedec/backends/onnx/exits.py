"""The exits and hidden states of ``drafting.onnx``, as it states them itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnxruntime as ort

from edgedec.backends.onnx.session import check_shapes, one_line_errors, other_model
from edgedec.core import exits as names
from edgedec.core.manifest import DRAFTING
from edgedec.core.model_spec import ModelSpec

_MOST = 64


@dataclass(frozen=True, slots=True)
class Exits:
    """``exits``: numbers of layers, the last of them all; ``taps``: layers whose outputs are to be had."""

    exits: tuple[int, ...] = ()
    taps: tuple[int, ...] = ()
    hidden_size: int = 0


NO_EXITS = Exits()


def read_exits(session: ort.InferenceSession, spec: ModelSpec, taps: Iterable[int] = ()) -> Exits:
    """Return the exits of a session over ``drafting.onnx``.

    ``taps``: further layers whose outputs are to be had, as far as it has them. Raises BadFileError unless it
    has the inputs and outputs of its exits and of the model of the manifest.
    """
    with one_line_errors(loading=True, graph=DRAFTING):
        stated = session.get_modelmeta().custom_metadata_map
        shapes = {node.name: node.shape for node in (*session.get_inputs(), *session.get_outputs())}
    exits, own = (_numbers(stated.get(key, ""), spec.n_layers) for key in (names.EXITS, names.TAPS))
    ascend = all(a < b for a, b in zip((0, *exits), exits, strict=False))
    # A peek would apply tokens to the states of lower layers, and not to those of the others.
    if (exits and spec.states) or exits[-1:] not in ((), (spec.n_layers,)):
        raise other_model(DRAFTING)
    if not ascend or not own or max(own) >= spec.n_layers:
        raise other_model(DRAFTING)
    warm, states = map(names.warm, exits), map(names.out, {*own, *(exit - 1 for exit in exits)})
    if any(shapes.get(name, [])[1:] != [spec.hidden_size] for name in (*warm, *states)):
        raise other_model(DRAFTING)
    inner = (kind(exit) for exit in exits[:-1] for kind in (names.rows, names.passing))
    check_shapes(session, spec, DRAFTING, (names.KEEP, *map(names.warm, exits), *inner))
    more = (tap for tap in taps if tap < spec.n_layers and names.out(tap) in shapes)
    return Exits(exits, tuple(sorted({*own, *(exit - 1 for exit in exits), *more})), spec.hidden_size)


def _numbers(text: str, most: int) -> tuple[int, ...]:
    """Return the numbers in ``text``, within 0 to ``most``; none when it holds anything else."""
    parts = text.split(",")
    if len(parts) > _MOST or not all(p.isascii() and p.isdecimal() and len(p) < 6 for p in parts):
        return ()
    numbers = tuple(map(int, parts))
    return numbers if max(numbers) <= most else ()
