"""Drafters of one decoder layer in ONNX Runtime: the part that all of them share.

Such a layer has a cache of its own, and reads tables in the weights of its target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgedec.backends.onnx.kv_forward import KvForward
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.backends.onnx.session import one_line_errors, open_session
from edgedec.backends.onnx.step_buffers import (
    AGAIN,
    StepBuffers,
    fits,
    found_pass,
    head_outputs,
    head_shapes,
    mapped_table,
    shapes_of,
)
from edgedec.bundle.head_facts import LONGEST_PASS
from edgedec.bundle.manifest import WEIGHTS
from edgedec.bundle.table_facts import TableFacts
from edgedec.core.errors import BadFileError
from edgedec.core.forward import Capabilities
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import FloatArray, Keep
from edgedec.core_lib.layer_drafters import DraftLayerSizes, HeadPass
from edgedec.memory.footprint import scratch_bytes
from edgedec.telemetry.cores import physical_cores

_NUMBERS = ("tokens", "positions", "parents", "rows")


@dataclass(frozen=True, slots=True)
class LayerGraph:
    """The graph of a layer: its file, its sizes, and the tables that it reads."""

    file: str
    name: str
    """The drafter, in messages."""
    spec: Callable[[int], ModelSpec]
    """The layer as a model, by the positions in its cache."""
    width: int
    """Numbers of a token's hidden states."""
    ids: int
    """Ids that it may predict."""
    tables: Mapping[str, TableFacts] = field(default_factory=dict)
    trims: bool = False
    """Whether a pass can be told the ids to compute the head for, its input ``keep``; others end with -1."""
    described: str = "what its manifest describes"

    def check(self, session: ort.InferenceSession) -> None:
        """Raise BadFileError unless the graph has the inputs and outputs that are stated."""
        shapes, spec = shapes_of(session, self.file), self.spec(1)
        numbers = (*_NUMBERS, *(["keep"] if self.trims else []))
        rows: dict[str, list[Any]] = {
            "taps": [self.width],
            **{name: [spec.hidden_size] for name in ("states", "out")},
            **{name: [] for name in numbers},
            **head_shapes(spec.head_k),
        }
        shapes.pop("kv_new", None)  # graphs without bodies in standard ops do not return it
        if not fits(shapes, rows, self.tables, ("length", "kv_cache")) or (
            shapes["kv_cache"][:3] != [1, 2, spec.n_kv_heads]
        ):
            raise BadFileError(f"{self.file} of the drafter is not {self.described}", hint=AGAIN)


class LayerModel:
    """A layer whose weights are mapped. It reads tables of the target in place.

    ``folder`` has the graph and its weights, ``target`` the bundle of the model that it drafts for. Raises
    BadFileError when they are broken or do not fit each other, BackendError when the runtime refuses.
    """

    def __init__(self, folder: Path, target: Path, graph: LayerGraph, threads: int | None) -> None:
        self.graph, self.threads = graph, threads or physical_cores()
        self.tables = {
            name: mapped_table(target / WEIGHTS, table, graph.name) for name, table in graph.tables.items()
        }
        self.session = open_session(folder, threads, graph=graph.file)
        self.weight_bytes = (folder / WEIGHTS).stat().st_size
        graph.check(self.session)
        self.reads: Mapping[str, int] = {}
        """Bytes that passes read, and what decides them, by the names of ``DraftLayerSizes``."""

    def forward(self, capacity: int, ledger: Ledger | None = None) -> LayerForward:
        """See ``LayerForward``."""
        return LayerForward(self, capacity, ledger)


class LayerForward(KvForward):
    """One sequence over a ``LayerModel``. Use ``step`` in the place of ``extend``."""

    def __init__(self, model: LayerModel, capacity: int, ledger: Ledger | None) -> None:
        """Make an empty cache of ``capacity`` positions; its memory is leased from ``ledger``.

        Raises MemoryBudgetError, and BackendError when the memory cannot be had.
        """
        ledger, spec = ledger or Ledger(), model.graph.spec(capacity)
        kv, longest = KvMemory(spec, capacity, ledger=ledger), min(LONGEST_PASS, capacity)
        caps = Capabilities(max_pass=longest, trees=True, exact=True)
        super().__init__(kv, spec, caps, model.weight_bytes)
        self._graph = model.graph
        self.keep: Keep | None = None
        """Ids that ``step`` computes the head for; None: all. Others than None where the graph trims."""
        own = spec.hidden_size, capacity, longest
        self.sizes = DraftLayerSizes(model.graph.width, *own, slot=kv.reserved // capacity, **model.reads)
        inputs, outputs = _inputs(longest, spec, model.graph), _outputs(longest, spec)
        self._buffers = StepBuffers(model.session, inputs, outputs, {**model.tables, **kv.arrays})
        ledger.hold(self, "scratch", scratch_bytes(spec, model.threads, longest, capacity))
        ledger.hold(self, "buffers", self._buffers.nbytes)

    def step(
        self,
        tokens: Sequence[int],
        *,
        taps: FloatArray | None = None,
        states: FloatArray | None = None,
        parents: Sequence[int] | None = None,
        rows: Sequence[int] = (),
    ) -> HeadPass:
        """Run one pass over ``tokens`` and append them, as ``Forward.extend`` does.

        ``taps`` f32[c, width] are hidden states of the target for the first c tokens, ``states``
        f32[n - c, d] those of the others, from ``HeadPass.out``. A token is the one that follows its hidden
        state. ``rows`` are indices of the tokens to predict the next one of. Raises as ``Forward.extend``.
        """
        committed, drafted = (0 if part is None else len(part) for part in (taps, states))
        if committed + drafted != len(tokens) or len(tokens) > self.caps.max_pass:
            raise ValueError(f"{committed} and {drafted} states for {len(tokens)} tokens")
        planned = self._plan(len(tokens), parents)
        counts = {"committed": committed, "drafted": drafted, "tokens": len(tokens), "rows": len(rows)}
        values: dict[str, Sequence[int] | NDArray[Any] | None] = {
            "tokens": tokens,
            "positions": planned.positions,
            "parents": planned.parents,
            "length": (planned.start,),
            "rows": rows,
            "taps": taps,
            "states": states,
        }
        graph, kept = self._graph, self.keep if rows else None
        if graph.trims:
            counts["kept"], values["keep"] = 0 if kept is None else len(kept), kept
        with one_line_errors(graph=graph.file):
            found = self._buffers.run(counts, values)
        result = found_pass(found, graph.ids, graph.name, padded=graph.trims)
        self._book.append(planned)
        return result


def _inputs(longest: int, spec: ModelSpec, graph: LayerGraph) -> dict[str, tuple[NDArray[Any], str]]:
    counted = {**dict.fromkeys(_NUMBERS, "tokens"), "length": "", "rows": "rows"}
    keep = {"keep": (np.zeros(graph.ids, np.int64), "kept")} if graph.trims else {}
    return {
        "taps": (np.empty((longest, graph.width), np.float32), "committed"),
        "states": (np.empty((longest, spec.hidden_size), np.float32), "drafted"),
        **{name: (np.zeros(longest, np.int64), what) for name, what in counted.items()},
        **keep,
    }


def _outputs(longest: int, spec: ModelSpec) -> dict[str, tuple[NDArray[Any], str]]:
    out = np.empty((longest, spec.hidden_size), np.float32)
    return {"out": (out, "tokens"), **head_outputs(longest, spec.head_k)}
