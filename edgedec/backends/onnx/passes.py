"""The passes over one cache, with the buffers of those that recur.

Only whole logits rows and hidden states get new arrays each time: they are too large to be kept, or copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgedec.backends.onnx.bound_pass import BoundPass, Fed, PassShape, States
from edgedec.backends.onnx.drafting import NO_EXITS, Exits
from edgedec.backends.onnx.expert_store import ExpertStore
from edgedec.backends.onnx.session import one_line_errors
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import FloatArray, HeadRows, Rows
from edgedec.memory import whole_keys

T = TypeVar("T")
_SHORT = 32
"""Passes up to this many tokens recur (decoding, verification) and keep their buffers."""
_MOST_KEPT = 128
_STEP = PassShape(tokens=1, placed=1, lengths=1, rows=1, full=False)


class OnnxPasses:
    """Passes over one cache, by the names of the graph's inputs, with the buffers of those that recur.

    Buffers, and whole rows and hidden states for as long as anyone has them, are leased from ``ledger``.
    """

    def __init__(
        self,
        session: ort.InferenceSession,
        spec: ModelSpec,
        caches: Mapping[str, NDArray[Any]],
        ledger: Ledger,
        exits: Exits = NO_EXITS,
        experts: ExpertStore | None = None,
    ) -> None:
        """``experts``: the store that the session's ops read from. It has to live as long as they do."""
        self._session, self._spec, self._caches, self._ledger = session, spec, caches, ledger
        self.exits, self._experts = exits, experts
        self._bound: dict[PassShape, BoundPass] = {}

    def run(self, fed: Fed) -> HeadRows:
        """Compute a pass; keys and values go into the cache, head results into fresh arrays.

        Raises BackendError when the runtime fails, BadFileError when the logits are not numbers,
        MemoryBudgetError.
        """
        return self.run_with_states(fed)[0]

    def run_with_states(self, fed: Fed) -> tuple[HeadRows, States]:
        """Compute a pass as ``run`` does, and return the outputs of the layers of ``fed.states`` too."""
        with one_line_errors():
            return self._stoppable(lambda: self._bound_for(fed.shape).run(fed))

    def step(self, token: int, position: int, slot: int, rows: Rows) -> HeadRows:
        """Compute a token alone behind those of one sequence, with its row, as ``run`` does."""
        with one_line_errors():
            return self._stoppable(lambda: self._bound_for(_STEP).step(token, position, slot, rows))

    def attention(self, fed: Fed) -> FloatArray:
        """Compute a pass over one sequence and return its attention, f32[layers, kv heads, slots].

        For models without windows (``Capabilities.attention``). The array is leased as long as it exists.
        Raises BackendError when the runtime fails, and MemoryBudgetError.
        """
        slots = fed.lengths[0] + len(fed.tokens)
        keys = whole_keys(self._spec)
        found = np.zeros((keys.layers, keys.kv_heads, slots), dtype=np.float32)
        self._ledger.hold(found, "attention", found.nbytes)
        caches: dict[str, NDArray[Any]] = {**self._caches, "attention": found}
        with one_line_errors():
            self._stoppable(lambda: self._bind(fed.shape, caches).run(fed))
        return found

    def _stoppable(self, compute: Callable[[], T]) -> T:
        return self._experts.passes(compute) if self._experts else compute()

    def _bound_for(self, shape: PassShape) -> BoundPass:
        bound = self._bound.get(shape)
        if bound is None:
            bound = self._bind(shape, self._caches)
            if shape.placed <= _SHORT:
                if len(self._bound) == _MOST_KEPT:
                    self._bound.clear()
                self._bound[shape] = bound
        return bound

    def _bind(self, shape: PassShape, caches: Mapping[str, NDArray[Any]]) -> BoundPass:
        return BoundPass(self._session, caches, self._spec, shape, self.exits, self._ledger)
