"""Drafting with the target itself: its first layers, then its own norm and head, perhaps a trimmed one.

A draft step is a ``Forward.peek`` after layer E. The keys and values it writes, and the hidden states after
E, are those of the pass that verifies, which goes on from there: nothing is computed twice (LayerSkip,
Elhoushi et al. 2024). With all layers and a trimmed head, only the whole head is left to the pass: that
drafts well without any training, and pays where the head is a large part of a pass.

A draft is a chain. It ends where the head is unsure (AdaEDL, Agrawal et al. 2024), and where its path is less
probable than a further step is worth. A head's probabilities understate how often an exit is right, or
overstate it; so each exit measures that and states measured ones (the confidence of DEL, Zarch et al. 2025).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgedec.core.forward import Forward
from edgedec.core.rows import LAST_ROW, Keep
from edgedec.core.tree import EMPTY, DraftTree, chain
from edgedec.draft.choices import choices
from edgedec.draft.drafter import Drafter, DrafterCapabilities
from edgedec.sampling import Occurred, SamplingParams

_UNSURE_NATS = 4.0
"""Entropy above which nothing is drafted; AdaEDL's bound on acceptance, 1 - sqrt(0.2 H), is 0.1 there."""
_STEPS = 8
_PRIOR = 4.0
"""Tokens that the first guess about an exit weighs as much as."""
_MEMORY = 200.0
"""Tokens after which older ones fade: text changes."""
_LAST_IS_RIGHT = 0.9
"""First guess of how often the exit after all layers is right."""


@dataclass(frozen=True, slots=True)
class _Stated:
    """A draft, and the head's own probabilities of its tokens; it followed ``position`` committed tokens."""

    position: int
    tokens: list[int]
    probs: list[float]


class ExitDrafter(Drafter):
    """Drafts after the first ``exit`` layers of ``forward``, the target's own.

    ``keep``: ids that the head computes, ascending; None for all. ``ends``: tokens that nothing follows.
    """

    caps = DrafterCapabilities(peeks=True)

    def __init__(
        self, forward: Forward, exit: int, keep: Keep | None = None, ends: Collection[int] = ()
    ) -> None:
        self.name = exit_name(exit)
        self._forward = forward
        self._exit = exit
        self._keep = keep
        self._ends = frozenset(ends)
        self._params = SamplingParams()
        self._last = 0
        self._position = 0
        self._occurred = Occurred()
        """Ids of the committed tokens, if a repetition penalty needs them."""
        self._sure = _Sureness(_LAST_IS_RIGHT if exit == forward.caps.exits[-1] else None)
        self._stated: _Stated | None = None
        self._peeked = 0

    @property
    def peeked(self) -> int:
        """See ``Drafter.peeked``."""
        return self._peeked

    def sampled(self, params: SamplingParams) -> None:
        """Draw as the target does from now on."""
        self._params = params

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        self._position = len(tokens)
        self._last = tokens[-1] if tokens else 0
        self._occurred = Occurred(tokens if self._params.repetition_penalty != 1.0 else ())
        self._stated = None

    def commit(self, tokens: Sequence[int]) -> None:
        self._score(tokens)
        if self._params.repetition_penalty != 1.0:
            for token in tokens:
                self._occurred.add(token)
        self._position += len(tokens)
        self._last = tokens[-1]

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        """See ``Drafter.propose``. Nothing where the cache lacks more than the last committed token."""
        self._peeked, self._stated = 0, None
        if limit < 1 or self._forward.length != self._position - 1:
            return EMPTY
        if self._forward.peeked:  # of a draft that no pass followed
            self._forward.rewind(self._forward.length)
        tokens, raw = self._chain(limit, floor)
        self._stated = _Stated(self._position, tokens, raw)
        return chain(tokens, [self._sure.of(prob) for prob in raw], self.name)

    def nbytes(self) -> int:
        return 0 if self._keep is None else self._keep.nbytes

    def _chain(self, limit: int, floor: float) -> tuple[list[int], list[float]]:
        """Tokens to follow the last committed one, with the head's own probabilities."""
        tokens: list[int] = []
        raw: list[float] = []
        reach, token = 1.0, self._last
        while len(tokens) < limit and token not in self._ends:
            head = self._forward.peek([token], exit=self._exit, rows=LAST_ROW, keep=self._keep)
            self._peeked += 1
            if head.entropy[0] > _UNSURE_NATS:
                break
            history = self._occurred.after(tokens)
            found = choices(head, 0, self._params, self._position + len(tokens), history, _known)
            if not found or found[0][1] <= 0.0:
                break
            token, prob = found[0]
            tokens.append(token)
            raw.append(prob)
            reach *= self._sure.of(prob)
            if reach < floor:
                break
        return tokens, raw

    def _score(self, committed: Sequence[int]) -> None:
        """Compare the last draft with the tokens that came; those behind the first wrong one do not count."""
        stated, self._stated = self._stated, None
        if stated is None or stated.position != self._position:
            return
        for token, prob, came in zip(stated.tokens, stated.probs, committed, strict=False):
            self._sure.count(prob, token == came)
            if token != came:
                return


class _Sureness:
    """How often an exit was right, by the probability that its head gave a token."""

    def __init__(self, first: float | None) -> None:
        """``first``: the guess before any token; None: the head's own probability."""
        guesses = ((step + 0.5) / (_STEPS + 1) if first is None else first for step in range(_STEPS + 1))
        self._right = [_PRIOR * guess for guess in guesses]
        self._seen = [_PRIOR] * (_STEPS + 1)

    def of(self, prob: float) -> float:
        """The share of tokens of about this probability that were right."""
        step = int(prob * _STEPS)
        return self._right[step] / self._seen[step]

    def count(self, prob: float, right: bool) -> None:
        """Note whether a token was right to which the head gave ``prob``."""
        step = int(prob * _STEPS)
        fade = 0.5 if self._seen[step] >= _MEMORY else 1.0
        self._seen[step] = fade * self._seen[step] + 1.0
        self._right[step] = fade * self._right[step] + right


def exit_name(exit: int) -> str:
    """Return the name of the drafter after ``exit`` layers."""
    return f"exit-{exit}"


def _known(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The target's ids are the drafter's own; -1 where the head kept fewer than it reports."""
    return ids
