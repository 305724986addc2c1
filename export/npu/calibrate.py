"""Measures the ranges of all values of a static graph on a sample of text, a layer at a time.

ONNX Runtime computes the layers in floats, so memory is that of one layer and its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from edgedec.bundle.npu_facts import Rotary
from edgedec.core.errors import UnsupportedError
from edgedec.core.progress import Steps
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.calibration.evaluate import F32, Floats
from edgedec.export.model import ExportModel
from edgedec.export.npu.lower import lower
from edgedec.export.npu.static_graph import (
    EMBEDDED,
    LOCAL_MASK,
    MASK,
    SLOTS,
    StaticGraph,
    added_values,
)
from edgedec.export.npu.weights import read

OPSET, IR_VERSION = 23, 11
_HIDDEN = np.float32(-1e30)
_BLOCK = "blk."
_MOST_BYTES = 2_000_000_000
"""Bytes of a graph that ONNX Runtime reads from memory."""


@dataclass(slots=True)
class Ranges:
    """Ranges of values by name, and for some of them the largest magnitude in each channel, f32[C]."""

    edges: dict[str, tuple[float, float]] = field(default_factory=dict)
    channels: dict[str, F32] = field(default_factory=dict)

    def widen(self, name: str, *values: F32) -> None:
        """Let the range hold ``values``."""
        low, high = self.edges.get(name, (np.inf, -np.inf))
        lows, highs = [float(one.min()) for one in values], [float(one.max()) for one in values]
        self.edges[name] = min(low, *lows), max(high, *highs)

    def widen_channels(self, name: str, values: F32) -> None:
        """Let the channels hold the rows ``values``."""
        most = np.abs(values).max(axis=0)
        self.channels[name] = np.maximum(self.channels.get(name, most), most)


def ranges_of(
    model: ExportModel, floats: Floats, windows: Sequence[Sequence[int]], progress: Steps
) -> Ranges:
    """Return the ranges of every value on ``windows`` of tokens; each begins with an empty cache."""
    found = Ranges()
    graphs = {size: lower(model, size, size) for size in {len(window) for window in windows}}
    any_graph = next(iter(graphs.values()))
    states = [_embedded(any_graph, floats, window) for window in windows]
    found.widen(EMBEDDED, *states)
    added = set(added_values(any_graph))
    pieces = pieces_of(any_graph)
    for done, piece in enumerate(pieces):
        for size, graph in graphs.items():
            session, outputs = _session(graph, piece, floats)
            turned = _turned(graph)
            for name, value in turned.items():
                found.widen(name, value)
            fixed = {**_masks(graph), **turned, SLOTS: _slots(graph)}
            for at, window in enumerate(windows):
                if len(window) != size:
                    continue
                feeds = {
                    one.name: states[at] if one.name == piece.takes else fixed.get(one.name, _nothing(one))
                    for one in session.get_inputs()
                }
                values = dict(zip(outputs, session.run(outputs, feeds), strict=True))
                for name, value in values.items():
                    found.widen(name, value)
                    if name in added:
                        found.widen_channels(name, value)
                states[at] = values[piece.gives]
        progress(done + 1, len(pieces))
    return found


@dataclass(frozen=True, slots=True)
class GraphPiece:
    """Nodes that are computed together: a layer, or the head."""

    takes: str
    gives: str
    nodes: list[onnx.NodeProto]


def pieces_of(graph: StaticGraph) -> list[GraphPiece]:
    """Return the layers of a graph, and behind them its norm and head."""
    grouped: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.nodes:
        last = node.name.split("/")[0]
        part = ".".join(last.split(".")[:2]) if last.startswith(_BLOCK) else ""
        grouped.setdefault(part, []).append(node)
    takes, pieces = EMBEDDED, []
    for nodes in grouped.values():
        pieces.append(GraphPiece(takes, nodes[-1].output[0], nodes))
        takes = nodes[-1].output[0]
    return pieces


def rotary_tables(graph: StaticGraph) -> dict[str, Rotary]:
    """Return the tables that the graph's inputs are taken of, by name."""
    found = {}
    for name in (wanted.removesuffix(".cos") for wanted in graph.inputs if wanted.endswith(".cos")):
        frequencies = graph.vectors[graph.rotary[name]].tolist()
        ones = np.ones(2 * len(frequencies), dtype=np.float32)
        factors = graph.vectors[graph.factors[name]] if name in graph.factors else ones
        found[name] = Rotary(tuple(frequencies), tuple(factors.tolist()))
    return found


def _turned(graph: StaticGraph) -> dict[str, F32]:
    found = {}
    for name, table in rotary_tables(graph).items():
        found[f"{name}.cos"], found[f"{name}.sin"] = table.at(np.arange(graph.tokens))
    return found


def _session(graph: StaticGraph, piece: GraphPiece, floats: Floats) -> tuple[ort.InferenceSession, list[str]]:
    outputs = [name for node in piece.nodes for name in node.output]
    used = {name for node in piece.nodes for name in node.input} - set(outputs)
    stored: list[onnx.TensorProto] = []
    inputs = [helper.make_tensor_value_info(piece.takes, onnx.TensorProto.FLOAT, None)]
    for name in sorted(used - {piece.takes}):
        if name in graph.inputs:
            inputs.append(helper.make_tensor_value_info(name, *graph.inputs[name]))
        else:
            stored.append(numpy_helper.from_array(_constant(graph, floats, name), name))
    if sum(len(one.raw_data) for one in stored) > _MOST_BYTES:
        raise UnsupportedError("a layer or head of more than 2 GB of floats cannot be measured for an NPU")
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs]
    made = helper.make_model(
        helper.make_graph(piece.nodes, "piece", inputs, values, stored),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"]), outputs


def _constant(graph: StaticGraph, floats: Floats, name: str) -> NDArray[Any]:
    if name in graph.matrices:
        return read(graph.matrices[name], floats)
    return graph.integers[name] if name in graph.integers else graph.vectors[name]


def _embedded(graph: StaticGraph, floats: Floats, window: Sequence[int]) -> F32:
    rows = [floats(graph.packed_table, token, token + 1)[0] for token in window]
    return np.stack(rows) * np.float32(graph.embedding_factor)


def _masks(graph: StaticGraph) -> dict[str, F32]:
    """Return causal masks for a window of text in an empty cache."""
    distance = np.arange(graph.tokens)[:, None] - np.arange(graph.slots)
    found = {}
    for name, window in ((MASK, graph.slots), (LOCAL_MASK, graph.window)):
        if name in graph.inputs:
            group = graph.inputs[name][1][1] // graph.tokens
            hidden = (distance < 0) | (distance >= window)
            found[name] = np.tile(np.where(hidden, _HIDDEN, np.float32(0)), (group, 1))[None]
    return found


def _slots(graph: StaticGraph) -> NDArray[np.int64]:
    heads = graph.inputs[SLOTS][1][0]
    rows = np.broadcast_to(np.arange(graph.tokens), (heads, graph.tokens))
    return np.stack([np.broadcast_to(np.arange(heads)[:, None], rows.shape), rows], axis=2)


def _nothing(one: Any) -> F32:
    return np.zeros(one.shape, dtype=np.float32)
