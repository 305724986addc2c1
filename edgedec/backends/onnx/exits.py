"""Checks that a session over ``drafting.onnx`` has the inputs and outputs that its metadata states."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import onnxruntime as ort

from edgedec.backends.onnx.drafting import Exits, stated_exits
from edgedec.backends.onnx.graph_guard import other_model
from edgedec.backends.onnx.session import check_shapes, one_line_errors
from edgedec.bundle import exits as names
from edgedec.bundle.manifest import DRAFTING
from edgedec.core.model_spec import ModelSpec


def read_exits(session: ort.InferenceSession, spec: ModelSpec, taps: Iterable[int] = ()) -> Exits:
    """Return the exits of a session over ``drafting.onnx``.

    ``taps``: further layers whose outputs are to be had, as far as it has them. Raises BadFileError unless it
    has the inputs and outputs of its exits and of the model of the manifest.
    """
    with one_line_errors(loading=True, graph=DRAFTING):
        stated = session.get_modelmeta().custom_metadata_map
        shapes = {node.name: node.shape for node in (*session.get_inputs(), *session.get_outputs())}
    found = stated_exits(stated, spec)
    warm, states = map(names.warm, found.exits), map(names.out, found.taps)
    if any(shapes.get(name, [])[1:] != [spec.hidden_size] for name in (*warm, *states)):
        raise other_model(DRAFTING)
    inner = (kind(exit) for exit in found.exits[:-1] for kind in (names.rows, names.passing))
    check_shapes(session, spec, DRAFTING, (names.KEEP, *map(names.warm, found.exits), *inner))
    more = (tap for tap in taps if tap < spec.n_layers and names.out(tap) in shapes)
    return replace(found, taps=tuple(sorted({*found.taps, *more})))
