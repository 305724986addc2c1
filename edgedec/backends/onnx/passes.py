"""The buffers of one pass, bound to the session once and reused for every pass of the same shape.

Only whole logits rows get a new array each time: they are too large to be kept, or to be copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgedec.backends.head_rows import check_finite
from edgedec.backends.onnx.session import one_line_errors
from edgedec.core.leasing import LedgerLike
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import FloatArray, HeadRows
from edgedec.memory.ledger import SLACK

_SHORT = 32
"""Passes up to this many tokens recur (decoding, verification) and keep their buffers."""
_MOST_KEPT = 128
_WITH_RESULTS = 2
"""Head results are handed out as copies of the buffers that a pass keeps."""


@dataclass(frozen=True, slots=True)
class Fed:
    """The inputs of a pass. ``lengths``: the graph's input ``length``; one number, or several for several
    sequences (``kernels/tree_attention/sequences.h``). ``rows``: indices whose head results are wanted.
    """

    tokens: Sequence[int]
    positions: Sequence[int]
    parents: Sequence[int]
    lengths: Sequence[int]
    rows: Sequence[int]
    full: bool = False
    temperature: float = 1.0

    @property
    def shape(self) -> tuple[int, int, int, bool]:
        return len(self.tokens), len(self.lengths), len(self.rows), self.full


class OnnxPasses:
    """Passes over one cache, by the names of the graph's inputs, with the buffers of those that recur.

    Buffers, and whole rows for as long as anyone has them, are leased from ``ledger``.
    """

    def __init__(
        self,
        session: ort.InferenceSession,
        spec: ModelSpec,
        caches: Mapping[str, NDArray[np.float16]],
        ledger: LedgerLike,
    ) -> None:
        self._session, self._spec, self._caches, self._ledger = session, spec, caches, ledger
        self._bound: dict[tuple[int, int, int, bool], BoundPass] = {}

    def run(self, fed: Fed) -> HeadRows:
        """Compute a pass; keys and values go into the cache, head results into fresh arrays.

        Raises BackendError when the runtime fails, BadFileError when the logits are not numbers,
        MemoryBudgetError.
        """
        with one_line_errors():
            return self._bound_for(fed.shape).run(fed)

    def attention(self, fed: Fed) -> FloatArray:
        """Compute a pass over one sequence and return its attention, f32[layers, kv heads, slots].

        For models without windows (``Capabilities.attention``). The array is leased as long as it exists.
        Raises BackendError when the runtime fails, and MemoryBudgetError.
        """
        slots = fed.lengths[0] + len(fed.tokens)
        found = np.zeros((self._spec.n_layers, self._spec.n_kv_heads, slots), dtype=np.float32)
        self._ledger.hold(found, "attention", found.nbytes)
        caches: dict[str, NDArray[Any]] = {**self._caches, "attention": found}
        with one_line_errors():
            self._bind(fed.shape, caches).run(fed)
        return found

    def _bound_for(self, shape: tuple[int, int, int, bool]) -> BoundPass:
        bound = self._bound.get(shape)
        if bound is None:
            bound = self._bind(shape, self._caches)
            if shape[0] <= _SHORT:
                if len(self._bound) == _MOST_KEPT:
                    self._bound.clear()
                self._bound[shape] = bound
        return bound

    def _bind(self, shape: tuple[int, int, int, bool], caches: Mapping[str, NDArray[Any]]) -> BoundPass:
        return BoundPass(self._session, caches, self._spec, shape, self._ledger)


class BoundPass:
    """Inputs and outputs of a ``Fed.shape``: tokens, lengths, head rows, whether with whole logits rows.

    ``caches``: keys and values, and other arrays that the kernels write, by the names of the graph's inputs.
    """

    def __init__(
        self,
        session: ort.InferenceSession,
        caches: Mapping[str, NDArray[Any]],
        spec: ModelSpec,
        shape: tuple[int, int, int, bool],
        ledger: LedgerLike,
    ) -> None:
        tokens, lengths, rows, full = shape
        self._session = session
        self._binding = session.io_binding()
        self._tokens, self._positions, self._parents = (np.zeros(tokens, dtype=np.int64) for _ in range(3))
        self._length = np.zeros(lengths, dtype=np.int64)
        self._rows = np.zeros(rows, dtype=np.int64)
        self._want = np.array([int(full)], dtype=np.int64)
        self._values = np.empty((rows, spec.head_k), dtype=np.float32)
        self._ids = np.empty((rows, spec.head_k), dtype=np.int32)
        self._logsumexp, self._entropy = (np.empty(rows, dtype=np.float32) for _ in range(2))
        self._temperature = np.ones(1, dtype=np.float32)
        self._logits_shape = (rows if full else 0, spec.vocab_size)
        self._no_logits = np.empty((0, spec.vocab_size), dtype=np.float32)
        self._full = full
        self._caches = caches  # the binding holds bare pointers: keep their owners
        self._ledger = ledger
        self._bind()
        if not full:
            self._bind_output("logits", self._no_logits)

    def _bind(self) -> None:
        inputs: dict[str, NDArray[Any]] = {
            "tokens": self._tokens,
            "positions": self._positions,
            "parents": self._parents,
            "length": self._length,
            "rows": self._rows,
            "want_logits": self._want,
            "temperature": self._temperature,
            **self._caches,
        }
        outputs: dict[str, NDArray[Any]] = {
            "values": self._values,
            "ids": self._ids,
            "logsumexp": self._logsumexp,
            "entropy": self._entropy,
        }
        own = [array for name, array in (inputs | outputs).items() if name not in self._caches]
        self._ledger.hold(self, SLACK, _WITH_RESULTS * sum(array.nbytes for array in own))
        for name, array in inputs.items():
            self._binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        for name, array in outputs.items():
            self._bind_output(name, array)

    def _bind_output(self, name: str, array: NDArray[Any]) -> None:
        self._binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)

    def run(self, fed: Fed) -> HeadRows:
        """See ``OnnxPasses.run``."""
        self._tokens[:] = fed.tokens
        self._positions[:] = fed.positions
        self._parents[:] = fed.parents
        self._length[:] = fed.lengths
        self._rows[:] = fed.rows
        self._temperature[0] = fed.temperature
        logits = None
        if self._full:
            logits = np.empty(self._logits_shape, dtype=np.float32)
            self._ledger.hold(logits, "rows", logits.nbytes)
            self._bind_output("logits", logits)
        self._session.run_with_iobinding(self._binding)
        check_finite(self._logsumexp)
        return HeadRows(
            self._values.copy(),
            self._ids.copy(),
            self._logsumexp.copy(),
            self._entropy.copy(),
            logits,
            fed.temperature,
        )
