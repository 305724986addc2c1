"""One pass: its inputs, and the buffers of a shape of passes, bound to the session once and used again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import byref
from dataclasses import replace
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgedec.backends.head_rows import check_finite
from edgedec.backends.onnx.drafting import Exits
from edgedec.backends.onnx.session import bound_run
from edgedec.backends.onnx.whole_rows import WholeRows
from edgedec.bundle import exits as names
from edgedec.core.ledger import SLACK
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import FloatArray, HeadRows, Keep, Rows
from edgedec.core.tree import ROOT
from edgedec.core_lib.params import lent_struct

_WITH_RESULTS = 2
"""Head results are handed out as copies of the buffers that a pass keeps."""

States = dict[int, FloatArray]
"""Outputs of layers, f32[tokens, hidden size]: of those tokens of a pass that went through the layer."""


class PassShape(NamedTuple):
    """Everything that decides the buffers of a pass; see ``Fed``."""

    tokens: int
    placed: int
    """Tokens that have parents and positions: all of the pass."""
    lengths: int
    rows: int
    full: bool
    exit: int = 0
    warm_exit: int = 0
    warm: int = 0
    states: tuple[int, ...] = ()

    def tokens_through(self, layer: int) -> int:
        """Tokens that go through a layer."""
        if self.exit and layer >= self.exit:
            return 0
        return self.tokens + self.warm if self.warm_exit and layer >= self.warm_exit else self.tokens


class Fed(NamedTuple):
    """The inputs of a pass. ``lengths``: the graph's input ``length``; one number, or several for several
    sequences (``kernels/tree_attention/sequences.h``). ``rows``: indices whose head results are wanted.

    The rest needs exits. ``tokens`` are then the last ones of those that have parents and positions.
    """

    tokens: Sequence[int]
    positions: Sequence[int]
    parents: Sequence[int]
    lengths: Sequence[int]
    rows: Sequence[int]
    full: bool = False
    temperature: float = 1.0
    exit: int = 0
    """Layers after which the pass ends, and ``rows`` are indices into ``tokens``; 0: after all layers."""
    warm_exit: int = 0
    """Layers that the ``w`` tokens before ``tokens`` went through already."""
    warm: FloatArray | None = None
    """Their rows after these layers, f32[w, hidden size]."""
    keep: Keep | None = None
    states: tuple[int, ...] = ()
    """Layers whose outputs to return."""
    lent: bool = False
    """See ``Rows.lent``."""

    @property
    def shape(self) -> PassShape:
        return PassShape(
            len(self.tokens),
            len(self.positions),
            len(self.lengths),
            len(self.rows),
            self.full,
            self.exit,
            self.warm_exit,
            0 if self.warm is None else len(self.warm),
            self.states,
        )


class BoundPass:
    """Inputs and outputs of passes of one shape.

    ``caches``: keys and values, and other arrays that the kernels write, by the names of the graph's inputs.
    ``whole``: memory of whole rows.
    """

    def __init__(
        self,
        session: ort.InferenceSession,
        caches: Mapping[str, NDArray[Any]],
        spec: ModelSpec,
        shape: PassShape,
        exits: Exits,
        whole: WholeRows,
    ) -> None:
        self._shape, self._whole = shape, whole
        self._binding = session.io_binding()
        self._run = bound_run(session, self._binding)
        self._hidden_size = spec.hidden_size
        rows = shape.rows
        # In one piece of memory, filled by one call: short passes are so frequent that each call counts.
        self._ints = np.zeros(shape.tokens + 2 * shape.placed + shape.lengths + rows, dtype=np.int64)
        ends = np.cumsum([shape.tokens, shape.placed, shape.placed, shape.lengths])
        self._tokens, self._positions, self._parents, self._length, self._rows = np.split(self._ints, ends)
        self._fill = partial(Struct(f"{self._ints.size}q").pack_into, self._ints.data, 0)
        self._want = np.array([int(shape.full)], dtype=np.int64)
        self._values = np.empty((rows, spec.head_k), dtype=np.float32)
        self._ids = np.empty((rows, spec.head_k), dtype=np.int32)
        self._logsumexp, self._entropy = (np.empty(rows, dtype=np.float32) for _ in range(2))
        self._temperature = np.ones(1, dtype=np.float32)
        self._lent: HeadRows | None = None
        """The results as they are lent; whole rows that were bound for another pass are not among them."""
        self._no_logits = np.empty((0, spec.vocab_size), dtype=np.float32)
        self._caches = caches  # the binding holds bare pointers: keep their owners
        self._of_exits = self._exit_inputs(exits)
        self._keep: Keep | None = None
        self._bind()
        if not shape.full:
            self._bind_output("logits", self._no_logits)

    def _exit_inputs(self, exits: Exits) -> dict[str, NDArray[Any]]:
        """The inputs of exits: those that the shape decides; no warm rows, and no ids to keep."""
        if not exits.taps:
            return {}
        nothing = np.empty(0, np.int64)
        found: dict[str, NDArray[Any]] = {names.KEEP: nothing}
        for exit in exits.exits:
            found[names.warm(exit)] = np.empty((0, exits.hidden_size), np.float32)
        for exit in exits.exits[:-1]:
            below = self._shape.tokens_through(exit - 1)
            going = 0 if exit == self._shape.exit else below
            found[names.passing(exit)] = np.arange(going, dtype=np.int64)
            found[names.rows(exit)] = nothing
        if self._shape.exit in exits.exits[:-1]:
            found |= {"rows": nothing, names.rows(self._shape.exit): self._rows}
        return found

    def _bind(self) -> None:
        inputs: dict[str, NDArray[Any]] = {
            "tokens": self._tokens,
            "positions": self._positions,
            "parents": self._parents,
            "length": self._length,
            "rows": self._rows,
            "want_logits": self._want,
            "temperature": self._temperature,
            **self._of_exits,
            **self._caches,
        }
        outputs: dict[str, NDArray[Any]] = {
            "values": self._values,
            "ids": self._ids,
            "logsumexp": self._logsumexp,
            "entropy": self._entropy,
        }
        own = [array for name, array in (inputs | outputs).items() if name not in self._caches]
        self._whole.ledger.hold(self, SLACK, _WITH_RESULTS * sum(array.nbytes for array in own))
        for name, array in inputs.items():
            self._bind_input(name, array)
        for name, array in outputs.items():
            self._bind_output(name, array)

    def _bind_input(self, name: str, array: NDArray[Any]) -> None:
        self._binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)

    def _bind_output(self, name: str, array: NDArray[Any]) -> None:
        self._binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)

    def run(self, fed: Fed) -> tuple[HeadRows, States]:
        """See ``OnnxPasses.run_with_states``."""
        self._fill(*fed.tokens, *fed.positions, *fed.parents, *fed.lengths, *fed.rows)
        if fed.warm is not None:
            self._bind_input(names.warm(fed.warm_exit), fed.warm)
        states = self._bound_states() if fed.states else {}
        return self._computed(fed.temperature, fed.keep, fed.lent), states

    def step(self, token: int, position: int, slot: int, rows: Rows) -> HeadRows:
        """Compute a token alone, with its row."""
        self._fill(token, position, ROOT, slot, 0)
        lent, keep = self._lent, rows.keep
        if lent is None or not rows.lent or lent.temperature != rows.temperature or keep is not self._keep:
            return self._computed(rows.temperature, keep, rows.lent)
        self._run()  # nothing is to be bound: as usual
        check_finite(self._logsumexp)
        return lent

    def forget_whole(self) -> None:
        """See ``whole_rows.Borrower``."""
        self._lent = None

    def _computed(self, temperature: float, keep: Keep | None, lent: bool) -> HeadRows:
        lent = lent and self._whole.lends
        found = self._lent if lent else None
        if found is None or found.temperature != temperature:
            self._temperature[0] = temperature
            found = self._bound_rows(temperature, lent)
            self._lent = found if lent else None
        if keep is not self._keep:
            self._bind_keep(keep)
        self._run()
        if self._keep is not None and self._shape.lengths > 1:
            self._bind_keep(None)  # conversations that share ids make new arrays: hold on to none
        check_finite(self._logsumexp)
        if lent:
            return found
        return HeadRows(
            self._values.copy(),
            self._ids.copy(),
            self._logsumexp.copy(),
            self._entropy.copy(),
            found.logits,
            temperature,
        )

    def _bound_rows(self, temperature: float, lent: bool) -> HeadRows:
        """Return the memory of the results, where whole rows are bound to fresh memory or to that to lend."""
        logits, rows = None, self._shape.rows
        if self._shape.full:
            logits = self._whole.lent(rows, self) if lent else self._whole.fresh(rows)
            self._bind_output("logits", logits)
        found = HeadRows(self._values, self._ids, self._logsumexp, self._entropy, logits, temperature)
        return replace(found, in_core=byref(lent_struct(found))) if lent else found

    def _bind_keep(self, keep: Keep | None) -> None:
        self._keep = keep
        self._bind_input(names.KEEP, np.empty(0, np.int64) if keep is None else keep)

    def _bound_states(self) -> States:
        """Fresh arrays, in one piece of memory, that the next run fills with the outputs of layers."""
        counts = {layer: self._shape.tokens_through(layer) for layer in self._shape.states}
        room = np.empty((sum(counts.values()), self._hidden_size), np.float32)
        self._whole.ledger.hold(room, "hidden", room.nbytes)
        states, first = {}, 0
        for layer, count in counts.items():
            states[layer] = room[first : first + count]
            self._bind_output(names.out(layer), states[layer])
            first += count
        return states
