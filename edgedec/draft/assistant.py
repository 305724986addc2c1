"""Drafting with an assistant of Gemma 4: it reads the target's KV cache and has none of its own.

It needs the target's last state alone, that of the token before the newest. Behind drafted tokens it reads
its own output, at the same position: so any node of a draft can be followed in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgedec.bundle.drafter_manifest import ASSISTANT
from edgedec.core.forward import Forward
from edgedec.core.rows import FloatArray
from edgedec.core.tree import EMPTY, DraftTree
from edgedec.draft.drafter import Drafter
from edgedec.draft.growth import LEAST_REACH, Growth
from edgedec.sampling import DrawParams

if TYPE_CHECKING:
    from edgedec.backends.onnx.assistant_forward import AssistantSteps

_UNKNOWN = -1


class AssistantDrafter(Drafter):
    """Drafts with ``steps`` over the cache of ``target``, from the layer ``tap`` of it."""

    name = ASSISTANT
    pretrained = True

    def __init__(self, steps: AssistantSteps, target: Forward, tap: int) -> None:
        self._steps, self._target, self.taps = steps, target, (tap,)
        self._params = DrawParams()
        self._tokens: list[int] = []
        self._start = 0
        """Tokens before the reply."""
        self._state = np.empty(target.spec.hidden_size, np.float32)
        self._at = _UNKNOWN
        """The position that ``_state`` belongs to."""

    def sampled(self, params: DrawParams) -> None:
        """Draw as the target does from now on."""
        self._params = params

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        """See ``Drafter.begin``."""
        self._tokens, self._start = list(tokens), len(tokens)
        if self._at >= kept:
            self._at = _UNKNOWN

    def commit(self, tokens: Sequence[int]) -> None:
        """See ``Drafter.commit``."""
        self._tokens += tokens

    def read(self, start: int, hidden: FloatArray) -> None:
        """See ``Drafter.read``."""
        if len(hidden):
            self._state[:] = hidden[-1]
            self._at = start + len(hidden) - 1

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        """See ``Drafter.propose``. Nothing where the last state is missing."""
        before = len(self._tokens) - 1
        if limit < 1 or before < 1 or self._at != before - 1 or self._target.length != before:
            return EMPTY
        evicting = self._target.evicting
        slots = before if evicting is None else evicting.resident
        tree = _Growth(self._steps, self._tokens, self._start, self._params, self._state, slots)
        return tree.grown(limit, max(floor, LEAST_REACH)).best(limit, floor, self.name)

    def nbytes(self) -> int:
        """Weights (mapped), buffers, the state, and bookkeeping."""
        return self._steps.nbytes() + self._state.nbytes + 8 * len(self._tokens)

    @property
    def bytes_read(self) -> int:
        """See ``Drafter.bytes_read``."""
        return self._steps.bytes_read

    @property
    def passes(self) -> int:
        """See ``Drafter.passes``."""
        return self._steps.passes


class _Growth(Growth):
    def __init__(
        self,
        steps: AssistantSteps,
        tokens: Sequence[int],
        start: int,
        params: DrawParams,
        state: FloatArray,
        slots: int,
    ) -> None:
        self._steps, self._place = steps, (len(tokens) - 1, slots)
        position, _ = self._place
        first = steps.step(tokens[-1], position=position, slots=slots, tap=state)
        super().__init__(tokens, start, params, (first.rows, first.out[0]))

    def _feed(self, chosen: list[int]) -> bool:
        position, slots = self._place
        for node in chosen:
            above, token = self._tree.parents[node], self._tree.tokens[node]
            found = self._steps.step(token, position=position, slots=slots, state=self._out[above])
            self._followed(node, found.rows, 0, found.out[0])
        return True
