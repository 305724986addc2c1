"""The buffers of one pass, bound to the session once and reused for every pass of the same shape.

Only whole logits rows get a new array each time: they are too large to be kept, or to be copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgedec.backends.head import check_finite
from edgedec.core.types import HeadRows, ModelSpec
from edgedec.memory import Pass


class BoundPass:
    """Inputs and outputs for ``tokens`` tokens and ``rows`` head rows, with or without whole logits rows.

    ``caches``: keys and values, by the names of the graph's inputs.
    ``tempered``: the graph has the input ``temperature``.
    """

    def __init__(
        self,
        session: ort.InferenceSession,
        caches: Mapping[str, NDArray[np.float16]],
        spec: ModelSpec,
        shape: tuple[int, int, bool],
        *,
        tempered: bool,
    ) -> None:
        tokens, rows, full = shape
        self._session = session
        self._binding = session.io_binding()
        self._tokens, self._positions, self._parents = (np.zeros(tokens, dtype=np.int64) for _ in range(3))
        self._length = np.zeros(1, dtype=np.int64)
        self._rows = np.zeros(rows, dtype=np.int64)
        self._want = np.array([int(full)], dtype=np.int64)
        self._values = np.empty((rows, spec.head_k), dtype=np.float32)
        self._ids = np.empty((rows, spec.head_k), dtype=np.int32)
        self._logsumexp, self._entropy = (np.empty(rows, dtype=np.float32) for _ in range(2))
        self._temperature = np.ones(1, dtype=np.float32) if tempered else None
        self._logits_shape = (rows if full else 0, spec.vocab_size)
        self._no_logits = np.empty((0, spec.vocab_size), dtype=np.float32)
        self._full = full
        self._caches = caches  # the binding holds bare pointers: keep their owners
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
            **self._caches,
        }
        if self._temperature is not None:
            inputs["temperature"] = self._temperature
        outputs: dict[str, NDArray[Any]] = {
            "values": self._values,
            "ids": self._ids,
            "logsumexp": self._logsumexp,
            "entropy": self._entropy,
        }
        for name, array in inputs.items():
            self._binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        for name, array in outputs.items():
            self._bind_output(name, array)

    def _bind_output(self, name: str, array: NDArray[Any]) -> None:
        self._binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)

    def run(self, tokens: Sequence[int], planned: Pass, rows: Sequence[int], temperature: float) -> HeadRows:
        """Compute the pass; keys and values go into the cache, head results into fresh arrays.

        ``temperature`` has no effect on a graph without that input. Raises BadFileError when the logits are
        not numbers: nothing can be drawn from them.
        """
        self._tokens[:] = tokens
        self._positions[:] = planned.positions
        self._parents[:] = planned.parents
        self._length[0] = planned.start
        self._rows[:] = rows
        if self._temperature is not None:
            self._temperature[0] = temperature
        logits = None
        if self._full:
            logits = np.empty(self._logits_shape, dtype=np.float32)
            self._bind_output("logits", logits)
        self._session.run_with_iobinding(self._binding)
        check_finite(self._logsumexp)
        return HeadRows(
            self._values.copy(),
            self._ids.copy(),
            self._logsumexp.copy(),
            self._entropy.copy(),
            logits,
            1.0 if self._temperature is None else temperature,
        )
