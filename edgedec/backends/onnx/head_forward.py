"""A drafting head in ONNX Runtime: one decoder layer over the target's hidden states, with its own cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgedec.backends.head_rows import check_finite
from edgedec.backends.onnx.kv_forward import KvForward
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.backends.onnx.session import one_line_errors, open_session
from edgedec.core.errors import BadFileError
from edgedec.core.forward import Capabilities
from edgedec.core.head_facts import GRAPH, LONGEST_PASS, HeadFacts
from edgedec.core.ledger import Ledger
from edgedec.core.manifest import WEIGHTS
from edgedec.core.rows import FloatArray, HeadRows
from edgedec.memory.footprint import scratch_bytes
from edgedec.telemetry.cores import physical_cores

_MOST_KEPT = 64
_AGAIN = "make the drafter again, or remove it"


@dataclass(frozen=True, slots=True)
class HeadPass:
    """The results of a pass over n tokens: the rows asked for, and ``out`` f32[n, d].

    ``out`` are the states of the next drafted tokens.
    """

    rows: HeadRows
    out: FloatArray


class HeadModel:
    """A drafting head whose weights are mapped. It reads tokens from the target's embedding table, in place.

    ``folder`` has the graph and its weights, ``target`` the bundle of the model that it drafts for. Raises
    BadFileError when they are broken or do not fit each other, BackendError when the runtime refuses.
    """

    def __init__(
        self, folder: Path, target: Path, facts: HeadFacts, vocab_size: int, *, threads: int | None = None
    ) -> None:
        self.facts, self.vocab_size = facts, vocab_size
        self.threads = threads or physical_cores()
        self._table = None if facts.own_table else _mapped_table(target / WEIGHTS, facts)
        self._session = open_session(folder, threads, graph=GRAPH)
        table = facts.table_tiles * facts.table_tile_bytes if facts.own_table else 0
        self.weight_bytes = (folder / WEIGHTS).stat().st_size - table
        """Bytes of the weights but a table of its own, whose rows are mapped as they are read."""
        _check_shapes(self._session, facts)

    def forward(self, capacity: int, ledger: Ledger | None = None) -> HeadForward:
        """Make an empty cache of ``capacity`` positions; its memory is leased from ``ledger``.

        Raises MemoryBudgetError, and BackendError when the memory cannot be had.
        """
        ledger = ledger or Ledger()
        kv = KvMemory(self.facts.spec(capacity), capacity, ledger=ledger)
        return HeadForward(self._session, kv, self._table, self, ledger)


class HeadForward(KvForward):
    """One sequence over a ``HeadModel``. Use ``step`` in the place of ``extend``."""

    def __init__(
        self,
        session: ort.InferenceSession,
        kv: KvMemory,
        table: NDArray[np.uint8] | None,
        model: HeadModel,
        ledger: Ledger,
    ) -> None:
        facts, spec = model.facts, model.facts.spec(kv.capacity)
        longest = min(LONGEST_PASS, kv.capacity)
        caps = Capabilities(max_pass=longest, trees=True, full_rows=False, exact=True)
        super().__init__(kv, spec, caps, model.weight_bytes)
        self._vocab = model.vocab_size
        self._facts = facts
        self.bytes_read = 0
        """Bytes of weights, keys and values that passes have read so far."""
        self.passes = 0
        self.table_bytes = 0
        """Bytes of the embedding table, once for each pass so far."""
        self._table_bytes = facts.table_tiles * facts.table_tile_bytes
        shared: dict[str, NDArray[Any]] = {**kv.arrays, **({} if table is None else {"table": table})}
        self._buffers = _Buffers(session, longest, shared, facts)
        ledger.hold(self, "scratch", scratch_bytes(spec, model.threads, longest, kv.capacity))
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

        ``taps`` f32[c, 3 t] are hidden states of the target for the first c tokens, ``states`` f32[n - c, d]
        are those of the others, from ``HeadPass.out``. A token is the one that follows its hidden state.
        ``rows`` are indices of the tokens to predict the next one of. Raises as ``Forward.extend`` does.
        """
        committed, drafted = (0 if part is None else len(part) for part in (taps, states))
        if committed + drafted != len(tokens) or len(tokens) > self.caps.max_pass:
            raise ValueError(f"{committed} and {drafted} states for {len(tokens)} tokens")
        planned = self._plan(len(tokens), parents)
        numbers = {
            "tokens": tokens,
            "positions": planned.positions,
            "parents": planned.parents,
            "length": (planned.start,),
            "rows": rows,
            "taps": taps,
            "states": states,
        }
        with one_line_errors():
            found = self._buffers.run(Shape(committed, drafted, len(rows)), numbers)
        if found.rows.ids.size and not 0 <= found.rows.ids.min() <= found.rows.ids.max() < self._vocab:
            raise BadFileError("the drafting head predicts ids outside the vocabulary", hint=_AGAIN)
        self._book.append(planned)
        self.passes += 1
        unread = (0 if committed else self._facts.fc_bytes) + (0 if len(rows) else self._facts.head_bytes)
        slot = self._kv.reserved // self.capacity
        self.bytes_read += self._weight_bytes - unread + slot * self._book.slots
        self.table_bytes += self._table_bytes
        return found


class _Buffers:
    """Inputs and outputs of passes. A binding for each shape of a pass has the beginnings of the arrays."""

    def __init__(
        self,
        session: ort.InferenceSession,
        longest: int,
        shared: Mapping[str, NDArray[Any]],
        facts: HeadFacts,
    ) -> None:
        self._session, self._shared = session, shared  # a binding holds bare pointers: keep their owners
        self._inputs = _inputs(longest, facts)
        self._outputs = _outputs(longest, facts)
        self._bindings: dict[Shape, Any] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, and of the copies of results that ``run`` returns."""
        results = sum(array.nbytes for array in self._outputs.values())
        return 2 * results + sum(array.nbytes for array in self._inputs.values())

    def run(self, shape: Shape, numbers: Mapping[str, Sequence[int] | FloatArray | None]) -> HeadPass:
        """Compute a pass; ``numbers`` are its inputs by name, None for one without elements."""
        for name, values in numbers.items():
            if values is not None:
                self._inputs[name][: len(values)] = values
        self._session.run_with_iobinding(self._bound(shape))
        found = {name: self._outputs[name][:count].copy() for name, count in _counts(shape, _OUTPUTS).items()}
        check_finite(found["logsumexp"])
        rows = HeadRows(found["values"], found["ids"], found["logsumexp"], found["entropy"])
        return HeadPass(rows, found["out"])

    def _bound(self, shape: Shape) -> Any:
        if shape not in self._bindings:
            if len(self._bindings) == _MOST_KEPT:
                self._bindings.clear()
            binding = self._bindings[shape] = self._session.io_binding()
            inputs = {name: self._inputs[name][:count] for name, count in _counts(shape, _INPUTS).items()}
            outputs = {name: self._outputs[name][:count] for name, count in _counts(shape, _OUTPUTS).items()}
            for bind, arrays in (
                (binding.bind_input, {**inputs, **self._shared}),
                (binding.bind_output, outputs),
            ):
                for name, array in arrays.items():
                    bind(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        return self._bindings[shape]


class Shape(NamedTuple):
    """Numbers of committed tokens, drafted tokens and rows of a pass."""

    committed: int
    drafted: int
    rows: int

    @property
    def tokens(self) -> int:
        return self.committed + self.drafted


_INPUTS = {
    "taps": "committed",
    "states": "drafted",
    **dict.fromkeys(("tokens", "positions", "parents"), "tokens"),
    "length": "",
    "rows": "rows",
}
_OUTPUTS = {"out": "tokens", **dict.fromkeys(("values", "ids", "logsumexp", "entropy"), "rows")}
"""The number, in a ``Shape``, of the rows of each array; "": one."""


def _counts(shape: Shape, arrays: Mapping[str, str]) -> dict[str, int]:
    return {name: getattr(shape, counted) if counted else 1 for name, counted in arrays.items()}


def _inputs(longest: int, facts: HeadFacts) -> dict[str, NDArray[Any]]:
    widths = {"taps": facts.width, "states": facts.hidden}
    floats = {name: np.empty((longest, width), np.float32) for name, width in widths.items()}
    numbers = {name: np.zeros(longest, np.int64) for name in _INPUTS if name not in widths}
    return {**floats, **numbers}


def _outputs(longest: int, facts: HeadFacts) -> dict[str, NDArray[Any]]:
    return {
        "out": np.empty((longest, facts.hidden), np.float32),
        "values": np.empty((longest, facts.head_k), np.float32),
        "ids": np.empty((longest, facts.head_k), np.int32),
        "logsumexp": np.empty(longest, np.float32),
        "entropy": np.empty(longest, np.float32),
    }


def _mapped_table(weights: Path, facts: HeadFacts) -> NDArray[np.uint8]:
    shape = facts.table_tiles, facts.table_tile_bytes
    if facts.table_offset + shape[0] * shape[1] > weights.stat().st_size:
        raise BadFileError("the drafting head expects a table outside the weights of its target", hint=_AGAIN)
    return np.memmap(weights, np.uint8, "r", facts.table_offset, shape)


def _check_shapes(session: ort.InferenceSession, facts: HeadFacts) -> None:
    """Raise BadFileError unless the graph has the inputs and outputs that ``facts`` state."""
    with one_line_errors(loading=True):
        shapes = {node.name: node.shape for node in (*session.get_inputs(), *session.get_outputs())}
    stated = {
        "taps": [facts.width],
        "states": [facts.hidden],
        **{name: [] for name in ("tokens", "positions", "parents", "rows", "logsumexp", "entropy")},
        "out": [facts.hidden],
        "values": [facts.head_k],
        "ids": [facts.head_k],
    }
    # Heads without bodies in standard ops return no keys and values.
    table = {} if facts.own_table else {"table": [facts.table_tiles, facts.table_tile_bytes]}
    wrong = shapes.keys() - {"kv_new"} != {*stated, *table, "length", "kv_cache"} or any(
        shapes[name][1:] != rest for name, rest in stated.items()
    )
    if wrong or shapes.get("table") != table.get("table") or shapes["kv_cache"][:3] != [1, 2, facts.kv_heads]:
        raise BadFileError(f"{GRAPH} of the drafter is not the head that its manifest describes", hint=_AGAIN)
