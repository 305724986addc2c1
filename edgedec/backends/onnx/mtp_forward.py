"""The MTP layer of a model in ONNX Runtime: a decoder layer with its own cache, and the target's head."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgedec.backends.onnx.head_forward import HeadPass
from edgedec.backends.onnx.kv_forward import KvForward
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.backends.onnx.session import one_line_errors, open_session
from edgedec.backends.onnx.step_buffers import AGAIN, StepBuffers, found_rows, head_outputs, mapped_table
from edgedec.core.errors import BadFileError
from edgedec.core.forward import Capabilities
from edgedec.core.ledger import Ledger
from edgedec.core.manifest import WEIGHTS
from edgedec.core.mtp_facts import GRAPH, LONGEST_PASS, MtpFacts
from edgedec.core.rows import FloatArray, Keep
from edgedec.memory.footprint import scratch_bytes
from edgedec.telemetry.cores import physical_cores

_WHAT = "the MTP drafter"


class MtpModel:
    """An MTP layer whose weights are mapped. It reads the target's embedding and head in place.

    ``folder`` has the graph and its weights, ``target`` the bundle of the model that it drafts for. Raises
    BadFileError when they are broken or do not fit each other, BackendError when the runtime refuses.
    """

    def __init__(self, folder: Path, target: Path, facts: MtpFacts, *, threads: int | None = None) -> None:
        self.facts, self.threads = facts, threads or physical_cores()
        self._tables = {
            name: mapped_table(target / WEIGHTS, table, _WHAT)
            for name, table in (("table", facts.table), ("head", facts.head))
        }
        self._session = open_session(folder, threads, graph=GRAPH)
        self.weight_bytes = (folder / WEIGHTS).stat().st_size
        _check_shapes(self._session, facts)

    def forward(self, capacity: int, ledger: Ledger | None = None) -> MtpForward:
        """Make an empty cache of ``capacity`` positions; its memory is leased from ``ledger``.

        Raises MemoryBudgetError, and BackendError when the memory cannot be had.
        """
        ledger = ledger or Ledger()
        kv = KvMemory(self.facts.spec(capacity), capacity, ledger=ledger)
        return MtpForward(self._session, kv, self._tables, self, ledger)


class MtpForward(KvForward):
    """One sequence over an ``MtpModel``. Use ``step`` in the place of ``extend``."""

    def __init__(
        self,
        session: ort.InferenceSession,
        kv: KvMemory,
        tables: dict[str, NDArray[np.uint8]],
        model: MtpModel,
        ledger: Ledger,
    ) -> None:
        facts, spec = model.facts, model.facts.spec(kv.capacity)
        longest = min(LONGEST_PASS, kv.capacity)
        caps = Capabilities(max_pass=longest, trees=True, full_rows=False, exact=True)
        super().__init__(kv, spec, caps, model.weight_bytes)
        self._facts = facts
        self.keep: Keep | None = None
        """Ids that ``step`` computes the head for; None: all."""
        self.bytes_read = 0
        """Bytes of weights, keys and values that passes have read so far."""
        self.passes = 0
        self.table_bytes = 0
        """Bytes of the target's embedding, once for each pass so far, where the head has another table."""
        inputs, outputs = _inputs(longest, facts), _outputs(longest, facts)
        self._buffers = StepBuffers(session, inputs, outputs, {**tables, **kv.arrays})
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

        ``taps`` f32[c, d] are outputs of the target's last layer for the first c tokens, ``states``
        f32[n - c, d] are those of the others, from ``HeadPass.out``. A token is the one that follows its
        state. ``rows`` are indices of the tokens to predict the next one of. Raises as ``Forward.extend``.
        """
        committed, drafted = (0 if part is None else len(part) for part in (taps, states))
        if committed + drafted != len(tokens) or len(tokens) > self.caps.max_pass:
            raise ValueError(f"{committed} and {drafted} states for {len(tokens)} tokens")
        planned = self._plan(len(tokens), parents)
        kept = self.keep if rows else None
        counts = {
            "committed": committed,
            "drafted": drafted,
            "tokens": len(tokens),
            "rows": len(rows),
            "kept": 0 if kept is None else len(kept),
        }
        values = {
            "tokens": tokens,
            "positions": planned.positions,
            "parents": planned.parents,
            "length": (planned.start,),
            "rows": rows,
            "taps": taps,
            "states": states,
            "keep": kept,
        }
        with one_line_errors(graph=GRAPH):
            found = self._buffers.run(counts, values)
        result = HeadPass(found_rows(found, self._facts.ids, _WHAT), found["out"])
        self._book.append(planned)
        self._count(len(rows), kept)
        return result

    def _count(self, rows: int, kept: Keep | None) -> None:
        self.passes += 1
        head = self._facts.head.nbytes if rows else 0
        if kept is not None:
            head = head * len(kept) // self._facts.ids
        slot = self._kv.reserved // self.capacity
        self.bytes_read += self._weight_bytes + head + slot * self._book.slots
        apart = self._facts.table_offset != self._facts.head_offset
        self.table_bytes += self._facts.table.nbytes if apart else 0


def _inputs(longest: int, facts: MtpFacts) -> dict[str, tuple[NDArray[Any], str]]:
    numbers = {"tokens": "tokens", "positions": "tokens", "parents": "tokens", "length": "", "rows": "rows"}
    floats = {"taps": "committed", "states": "drafted"}
    return {
        **{name: (np.empty((longest, facts.hidden), np.float32), what) for name, what in floats.items()},
        **{name: (np.zeros(longest, np.int64), what) for name, what in numbers.items()},
        "keep": (np.zeros(facts.ids, np.int64), "kept"),
    }


def _outputs(longest: int, facts: MtpFacts) -> dict[str, tuple[NDArray[Any], str]]:
    out = np.empty((longest, facts.hidden), np.float32)
    return {"out": (out, "tokens"), **head_outputs(longest, facts.head_k)}


def _check_shapes(session: ort.InferenceSession, facts: MtpFacts) -> None:
    """Raise BadFileError unless the graph has the inputs and outputs that ``facts`` state."""
    with one_line_errors(loading=True, graph=GRAPH):
        shapes = {node.name: node.shape for node in (*session.get_inputs(), *session.get_outputs())}
    numbers = ("tokens", "positions", "parents", "rows", "keep", "logsumexp", "entropy")
    stated: dict[str, list[int]] = {
        **{name: [facts.hidden] for name in ("taps", "states", "out")},
        **{name: [] for name in numbers},
        "values": [facts.head_k],
        "ids": [facts.head_k],
    }
    tables = {"table": facts.table, "head": facts.head}
    # Graphs without bodies in standard ops return no keys and values.
    wrong = shapes.keys() - {"kv_new"} != {*stated, *tables, "length", "kv_cache"}
    wrong = wrong or any(shapes[name][1:] != rest for name, rest in stated.items())
    wrong = wrong or any(shapes[name] != [one.tiles, one.tile_bytes] for name, one in tables.items())
    if wrong or shapes["kv_cache"][:3] != [1, 2, facts.kv_heads]:
        raise BadFileError(f"{GRAPH} of the drafter is not what its manifest describes", hint=AGAIN)
