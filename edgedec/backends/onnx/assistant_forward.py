"""An assistant of Gemma 4 in ONNX Runtime: steps over one token that read the target's cache in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

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
from edgedec.bundle.assistant_facts import GRAPH, AssistantFacts
from edgedec.bundle.manifest import WEIGHTS
from edgedec.core.errors import BadFileError
from edgedec.core.ledger import Ledger
from edgedec.core.rows import FloatArray
from edgedec.core_lib.layer_drafters import AssistantStepSizes, HeadPass
from edgedec.telemetry.cores import physical_cores

_WHAT = "the assistant"
_CACHES = ("kv_cache", "kv_window")
_NUMBERS = ("tokens", "positions", "parents", "length")
Keys = NDArray[np.float16]


class AssistantModel:
    """An assistant whose weights are mapped. It reads the target's embedding in place.

    ``folder`` has the graph and its weights, ``target`` the bundle of the model that it drafts for. Raises
    BadFileError when they are broken or do not fit each other, BackendError when the runtime refuses.
    """

    def __init__(
        self, folder: Path, target: Path, facts: AssistantFacts, *, threads: int | None = None
    ) -> None:
        self.facts, self.threads = facts, threads or physical_cores()
        self._table = mapped_table(target / WEIGHTS, facts.table, _WHAT)
        self._session = open_session(folder, threads, graph=GRAPH)
        self.weight_bytes = (folder / WEIGHTS).stat().st_size
        self._caches = _checked_caches(self._session, facts)

    def steps(self, keys: Mapping[str, Keys], ledger: Ledger | None = None) -> AssistantSteps:
        """Return what computes steps over the target's ``keys``; its buffers are leased from ``ledger``.

        Raises BadFileError where they are not those that the graph was made for, and MemoryBudgetError.
        """
        for name, shape in self._caches.items():
            found = keys[name].shape if name in keys else ()
            if found[:3] != shape:
                raise BadFileError(f"{_WHAT} was made for another KV cache: {name} has the shape {found}")
        read = {name: keys[name] for name in self._caches}
        return AssistantSteps(self._session, {"table": self._table, **read}, self, ledger or Ledger())


class AssistantSteps:
    """Steps over one sequence of the target. They leave nothing behind."""

    def __init__(
        self,
        session: ort.InferenceSession,
        shared: dict[str, NDArray[Any]],
        model: AssistantModel,
        ledger: Ledger,
    ) -> None:
        facts = self._facts = model.facts
        self._keys = [array for name, array in shared.items() if name != "table"]
        self._weight_bytes = model.weight_bytes
        self.ledger = ledger
        unread = facts.head_bytes * (facts.ids - facts.scored) // facts.ids
        # The keys and values in one layer of each kind.
        caches = tuple((one.nbytes // one.shape[0] // one.shape[3], one.shape[3]) for one in self._keys)
        self.sizes = AssistantStepSizes(facts.target_hidden, model.weight_bytes - unread, caches)
        floats = {"taps": "committed", "states": "drafted"}
        inputs: dict[str, tuple[NDArray[Any], str]] = {
            **{name: (np.empty((1, facts.target_hidden), np.float32), what) for name, what in floats.items()},
            **{name: (np.zeros(1, np.int64), "") for name in _NUMBERS},
        }
        out = np.empty((1, facts.target_hidden), np.float32)
        outputs = {"out": (out, ""), **head_outputs(1, facts.head_k)}
        self._buffers = StepBuffers(session, inputs, outputs, shared)
        ledger.hold(self, "buffers", self._buffers.nbytes)
        ledger.hold(self, "scratch", scratch(facts, model.threads, max(one.shape[3] for one in self._keys)))

    def step(
        self,
        token: int,
        *,
        position: int,
        slots: int,
        tap: FloatArray | None = None,
        state: FloatArray | None = None,
    ) -> HeadPass:
        """Predict what follows ``token``, at ``position``, behind the first ``slots`` slots of the target.

        ``tap`` f32[D] is the output of the target's last layer for the token before; or ``state`` f32[D] is
        ``out`` of the step that drafted the token. Raises BackendError, and BadFileError for impossible ids.
        """
        given = tap if state is None else state
        if given is None or slots < 1:
            raise ValueError("a step needs a state, and a token in the target's cache")
        values: dict[str, Sequence[int] | NDArray[Any] | None] = {
            "tokens": (token,),
            "positions": (position,),
            "parents": (-1,),
            "length": (slots - 1,),
            "taps" if state is None else "states": given[None],
        }
        counts = {"committed": int(state is None), "drafted": int(state is not None), "rows": 1}
        with one_line_errors(graph=GRAPH):
            found = self._buffers.run(counts, values)
        return found_pass(found, self._facts.ids, _WHAT)

    def nbytes(self) -> int:
        """Weights (mapped) and buffers."""
        return self._weight_bytes + self._buffers.nbytes


def scratch(facts: AssistantFacts, threads: int, context: int) -> int:
    """Return the bytes that a step over ``context`` slots holds for a moment beside its results."""
    numbers = 4 * facts.target_hidden + 8 * facts.hidden + 2 * facts.ffn + 3 * facts.heads * facts.head_dim
    return 4 * (2 * numbers + 6 * facts.scored) + 32 * 4 * context * threads


def _checked_caches(session: ort.InferenceSession, facts: AssistantFacts) -> dict[str, tuple[int, ...]]:
    """Return layers, 2 and heads of each cache that the graph reads.

    Raises BadFileError unless the graph has the inputs and outputs that ``facts`` state.
    """
    shapes = shapes_of(session, GRAPH)
    rows: dict[str, list[Any]] = {
        **{name: [facts.target_hidden] for name in ("taps", "states", "out")},
        **{name: [] for name in _NUMBERS},
        **head_shapes(facts.head_k),
    }
    caches = {name: tuple(shapes[name][:3]) for name in _CACHES if name in shapes}
    whole = all(isinstance(one, int) for shape in caches.values() for one in shape)
    if not (caches and whole and fits(shapes, rows, {"table": facts.table}, caches)) or (
        any(len(shapes[name]) != 5 for name in caches)
    ):
        raise BadFileError(f"{GRAPH} of the drafter is not what its manifest describes", hint=AGAIN)
    return caches
