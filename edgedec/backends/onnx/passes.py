"""The passes over one cache, with the buffers of those that recur.

Only whole logits rows and hidden states get new arrays each time: they are too large to be kept, or copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgedec.backends.onnx.bound_pass import BoundPass, Fed, PassShape, States
from edgedec.backends.onnx.drafting import NO_EXITS, Exits
from edgedec.backends.onnx.expert_store import ExpertStore
from edgedec.backends.onnx.session import one_line_errors
from edgedec.backends.onnx.whole_rows import WholeRows
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import FloatArray, HeadRows, Rows
from edgedec.memory import whole_keys

_SHORT = 32
"""Passes up to this many tokens recur (decoding, verification) and keep their buffers."""
_MOST_KEPT = 128
_ERRORS = one_line_errors()


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
        self._steps: list[BoundPass | None] = [None, None]
        """Of one token, without and with whole rows."""
        self._whole = WholeRows(ledger, spec.vocab_size)

    def run(self, fed: Fed) -> HeadRows:
        """Compute a pass; keys and values go into the cache, head results into fresh arrays, or lent ones.

        Raises BackendError when the runtime fails, BadFileError when the logits are not numbers,
        MemoryBudgetError.
        """
        return self.run_with_states(fed)[0]

    def run_with_states(self, fed: Fed) -> tuple[HeadRows, States]:
        """Compute a pass as ``run`` does, and return the outputs of the layers of ``fed.states`` too."""
        with _ERRORS:
            bound = self._bound_for(fed.shape)
            return self._experts.passes(lambda: bound.run(fed)) if self._experts else bound.run(fed)

    def step(self, token: int, position: int, slot: int, rows: Rows) -> HeadRows:
        """Compute a token alone behind those of one sequence, with its row, as ``run`` does."""
        try:
            bound = self._steps[rows.full] or self._bound_step(rows.full)
            if self._experts:
                return self._experts.passes(lambda: bound.step(token, position, slot, rows))
            return bound.step(token, position, slot, rows)
        except Exception as error:
            _ERRORS.translate(error)
            raise

    def _bound_step(self, full: bool) -> BoundPass:
        shape = PassShape(tokens=1, placed=1, lengths=1, rows=1, full=full)
        self._steps[full] = bound = self._bound_for(shape)
        return bound

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
        with _ERRORS:
            bound = self._bind(fed.shape, caches)
            if self._experts:
                self._experts.passes(lambda: bound.run(fed))
            else:
                bound.run(fed)
        return found

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
        return BoundPass(self._session, caches, self._spec, shape, self.exits, self._whole)
