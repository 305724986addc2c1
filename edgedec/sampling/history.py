"""What draws read of the tokens before them, kept as tokens are committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.sampling.occurred import Occurred
from edgedec.sampling.params import DrawParams


class DrawHistory:
    """The tokens before a draw, as far as its settings read them.

    ``occurred`` has the ids of prompt and reply, for the repetition penalty. ``said`` counts the reply's own
    tokens, for the frequency and presence penalties. ``bound`` is mirostat's state; see ``mirostat``.

    >>> penalised = DrawParams(repetition_penalty=1.1, frequency_penalty=0.5)
    >>> history = DrawHistory(penalised, [5, 7, 9, 9], said=2)
    >>> history.occurred.ids().tolist(), dict(history.said)
    ([5, 7, 9], {9: 2})
    >>> dict(history.after([7, 9]).said), dict(history.said)
    ({9: 3, 7: 1}, {9: 2})
    """

    def __init__(
        self, params: DrawParams, tokens: Sequence[int] = (), *, said: int = 0, bound: float | None = None
    ) -> None:
        """``tokens`` are all before the draw; the last ``said`` of them are of the reply.

        ``bound`` is that after a reply's first part; None: as a reply begins.
        """
        self._reads_ids, self._counts = params.repetition_penalty != 1.0, params.counts
        self.occurred = Occurred(tokens if self._reads_ids else ())
        self.said = Counter(tokens[len(tokens) - said :] if self._counts else ())
        self.bound: float | None = None
        if params.mirostat and not params.greedy:
            self.bound = 2.0 * params.mirostat if bound is None else bound

    @staticmethod
    def of(history: History, params: DrawParams) -> DrawHistory:
        """Return ``history`` itself, or that of a sequence of tokens, all of which the reply has said."""
        if isinstance(history, DrawHistory):
            return history
        if not isinstance(history, Occurred):
            return DrawHistory(params, history, said=len(history))
        found = DrawHistory(params)
        found.occurred = history
        return found

    def add(self, token: int, bound: float | None = None) -> None:
        """Note that ``token`` was committed, and the bound after it."""
        self.bound = bound
        if self._reads_ids:
            self.occurred.add(token)
        if self._counts:
            self.said[token] += 1

    def after(self, tokens: Sequence[int], bound: float | None = None) -> DrawHistory:
        """Return the history with ``tokens`` behind it, which may be taken back; this one stays as it is.

        ``bound`` is that after them.
        """
        if not tokens or not (self._reads_ids or self._counts or self.bound is not None):
            return self
        found = object.__new__(DrawHistory)
        found._reads_ids, found._counts = self._reads_ids, self._counts
        found.occurred, found.bound = self.occurred.after(tokens), bound
        found.said = self.said
        if self._counts:
            found.said = self.said.copy()
            found.said.update(tokens)
        return found

    def said_ids(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the ids i64[n] that the reply has said, each once, and how often f64[n]."""
        ids = np.fromiter(self.said.keys(), np.int64, len(self.said))
        return ids, np.fromiter(self.said.values(), np.float64, len(self.said))


History = DrawHistory | Occurred | Sequence[int]
"""The forms in which a draw takes the tokens before it; see ``DrawHistory.of``."""
