"""Token recycling: what the target thought of last time in this context (after Luo et al. 2024).

Every pass answers every token fed with its most likely successors, rejected drafts included. A table keeps
the latest answers, with the target's own probabilities, to the last two tokens and to the last one, and a
tree is read off it. Of a prompt, which is fed without answers, each token stands as the answer to the one
before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.core.tree import DraftTree
from edgedec.core.types import HeadRows
from edgedec.draft.answers import LEVELS, WIDTH, AnswerTable, key_of
from edgedec.draft.grow import best_first

_NONE = -1
_MARKS = 256

_TRUST = (0.35, 0.5)
"""An answer to one token, or to two, is right this often relative to the probability that it had."""
_FADED = 0.6
"""And this much less often in another sequence than the one it was given in."""
_PRIOR = 8.0
"""These weigh as much as so many observations."""
_MEMORY = 400.0
"""A new observation never weighs less than one in so many: text changes."""
_SEEN = LEVELS // 2
"""Level of a token that followed once in a prompt."""

_RATES = 4 * LEVELS
"""Rates of answers to one token; as many follow, of answers to two."""

_Context = tuple[int, int]
"""The last two tokens; -1 for none."""

_Lesson = tuple[DraftTree, NDArray[np.int32], NDArray[np.float32], NDArray[np.float32], float]
"""A pass: the tree, ids, values and logsumexp of its rows, and their temperature."""

_MOST_UNREAD = 32
"""Passes kept for later, in some kilobytes each."""


class Recycling:
    """Drafts successors of successors from at most ``memory`` bytes of answers."""

    name = "recycling"

    def __init__(self, *, memory: int = 1 << 21) -> None:
        self._table = AnswerTable(memory)
        self._recent: _Context = (_NONE, _NONE)
        self._mark = 0  # of the current sequence
        self._heard: _Lesson | None = None
        self._unread: list[tuple[_Lesson | None, Sequence[int]]] = []
        self._rates = _Rates([trust * prior for trust in _TRUST for prior in _priors()])

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        self._read()
        self._heard = None
        self._mark = (self._mark + 1) % _MARKS
        for at in range(max(kept, 1), len(tokens)):
            self._followed(tokens[at - 1], tokens[at])
        self._recent = (tokens[-2] if len(tokens) > 1 else _NONE, tokens[-1] if tokens else _NONE)

    def learn(self, tree: DraftTree, rows: HeadRows) -> None:
        self._heard = (tree, rows.ids, rows.values, rows.logsumexp, rows.temperature)

    def commit(self, tokens: Sequence[int]) -> None:
        """Read when it is needed: a drafter that is not asked should cost next to nothing."""
        self._unread.append((self._heard, tokens))
        self._heard = None
        if len(self._unread) > _MOST_UNREAD:
            self._read()

    def _read(self) -> None:
        """Judge the answers that there were before each round, then take in the round's."""
        for lesson, tokens in self._unread:
            answers = self._answered(lesson) if lesson else ()
            for token in tokens:
                for successor, cell in self._answers(self._recent):
                    self._rates.observe(cell, successor == token)
                self._recent = (self._recent[1], token)
            for (before, last), ids, levels in answers:
                if last != _NONE:
                    self._table.store(key_of(_NONE, last), ids, levels, self._mark)
                if before != _NONE:
                    self._table.store(key_of(before, last), ids, levels, self._mark)
        self._unread = []

    def _answered(self, lesson: _Lesson) -> list[tuple[_Context, list[int], bytes]]:
        """What the target said after each token of a pass, with the last two tokens there."""
        tree, all_ids, all_values, totals, temperature = lesson
        contexts = [self._recent]
        for token, parent in zip(tree.tokens, tree.parents, strict=True):
            contexts.append((contexts[parent + 1][1], token))
        if len(all_ids) != len(contexts) or all_ids.shape[1] < WIDTH:
            return []
        # Plain numbers: for so few of them a NumPy call costs more than its arithmetic.
        ids, values = all_ids[:, :WIDTH].tolist(), all_values[:, :WIDTH].tolist()
        return [
            (context, tokens, _levels(logits, temperature, total))
            for context, tokens, logits, total in zip(contexts, ids, values, totals.tolist(), strict=True)
        ]

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        self._read()
        return best_first(self._recent, self._following, limit=limit, floor=floor, source=self.name)

    def _following(self, context: _Context) -> list[tuple[int, float, _Context]]:
        rates, last = self._rates.values, context[1]
        return [(token, rates[cell], (last, token)) for token, cell in self._answers(context)]

    def nbytes(self) -> int:
        return self._table.nbytes()

    def saved(self) -> bytes:
        self._read()
        return self._table.saved()

    def restore(self, data: bytes, vocab_size: int) -> None:
        self._table.restore(data, vocab_size)

    def _answers(self, context: _Context) -> list[tuple[int, int]]:
        """Tokens that answered the last two tokens, or else the last, each with the index of its rate."""
        before, last = context
        found, base = None, _RATES
        if before != _NONE:
            found = self._table.find(key_of(before, last))
        if found is None:
            if last == _NONE or (found := self._table.find(key_of(_NONE, last))) is None:
                return []
            base = 0
        tokens, levels, mark = found
        if mark == self._mark:
            base += 2 * LEVELS
        cells = [base + 2 * levels[0], *[base + 2 * level + 1 for level in levels[1:]]]
        return [(token, cell) for token, cell in zip(tokens, cells, strict=True) if token != _NONE]

    def _followed(self, token: int, successor: int) -> None:
        """Put ``successor`` before what answered ``token`` up to now."""
        key = key_of(_NONE, token)
        tokens, levels = [successor], bytes([_SEEN])
        if (known := self._table.find(key)) is not None:
            if known[0][0] == successor and known[2] == self._mark:
                return
            others = [at for at in range(WIDTH) if known[0][at] != successor][: WIDTH - 1]
            tokens += [known[0][at] for at in others]
            levels += bytes(known[1][at] for at in others)
        missing = WIDTH - len(tokens)
        self._table.store(key, tokens + [_NONE] * missing, levels + bytes(missing), self._mark)


class _Rates:
    """How often things were right, by index; ``values`` are those rates, first of all the ``priors``."""

    def __init__(self, priors: Sequence[float]) -> None:
        self.values = list(priors)
        self._seen = [_PRIOR] * len(priors)

    def observe(self, index: int, right: bool) -> None:
        seen = self._seen[index] = min(self._seen[index] + 1.0, _MEMORY)
        self.values[index] += (right - self.values[index]) / seen


def _levels(logits: list[float], temperature: float, logsumexp: float) -> bytes:
    chances = [math.exp(logit / temperature - logsumexp) for logit in logits]
    return bytes([min(int(chance * LEVELS), LEVELS - 1) for chance in chances])


def _priors() -> list[float]:
    """By whether the answer is fresh, by level, and by whether it is the first one."""
    chances = [(level + 0.5) / LEVELS for level in range(LEVELS) for _first in (True, False)]
    return [_FADED * chance for chance in chances] + chances
