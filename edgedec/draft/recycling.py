"""Token recycling: what the target thought of last time in this context (after Luo et al. 2024).

Every pass answers every token fed with its most likely successors, rejected drafts included. A table keeps
the latest answers, with the target's own probabilities, to the last two tokens and to the last one, and a
tree is read off it. Of a prompt, which is fed without answers, each token stands as the answer to the one
before.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from edgedec.core.tree import ROOT, DraftTree
from edgedec.core.types import HeadRows
from edgedec.draft.answers import LEVELS, WIDTH, Answer, AnswerTable, key_of

_NONE = -1
_MARKS = 256

_TRUST = (0.35, 0.5)
"""An answer to one token, or to two, is right this often relative to the probability that it had."""
_FADED = 0.6
"""And this much less often in another sequence than the one it was given in."""
_PRIOR = 8.0
"""These weigh as much as so many observations."""
_MEMORY = 400.0
"""Observations after which older ones fade: text changes."""
_SEEN = LEVELS // 2
"""Level of a token that followed once in a prompt."""

_Context = tuple[int, int]
"""The last two tokens; -1 for none."""


class Recycling:
    """Drafts successors of successors from at most ``memory`` bytes of answers."""

    name = "recycling"

    def __init__(self, *, memory: int = 1 << 21) -> None:
        self._table = AnswerTable(memory)
        self._recent: _Context = (_NONE, _NONE)
        self._mark = 0  # of the current sequence
        self._waiting: list[tuple[_Context, list[int], bytes]] = []
        self._rates = [_Rate(trust * prior) for trust in _TRUST for prior in _cell_priors()]

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        self._waiting = []
        self._mark = (self._mark + 1) % _MARKS
        for at in range(max(kept, 1), len(tokens)):
            self._followed(tokens[at - 1], tokens[at])
        self._recent = (tokens[-2] if len(tokens) > 1 else _NONE, tokens[-1] if tokens else _NONE)

    def learn(self, tree: DraftTree, rows: HeadRows) -> None:
        contexts = [self._recent]
        for token, parent in zip(tree.tokens, tree.parents, strict=True):
            contexts.append((contexts[parent + 1][1], token))
        if len(rows) != len(contexts) or rows.ids.shape[1] < WIDTH:
            return
        chances = np.exp(rows.values[:, :WIDTH] - rows.logsumexp[:, None])
        levels = np.minimum(chances * LEVELS, LEVELS - 1).astype(np.uint8)
        answers = zip(contexts, rows.ids[:, :WIDTH].tolist(), levels, strict=True)
        self._waiting = [(context, ids, level.tobytes()) for context, ids, level in answers]

    def commit(self, tokens: Sequence[int]) -> None:
        """Judges the answers that there were before, then takes in the new ones."""
        for token in tokens:
            answer, base = self._answer(self._recent)
            if answer is not None:
                for rank, successor in enumerate(answer.tokens):
                    self._rates[base + _cell(answer, rank)].observe(successor == token)
            self._recent = (self._recent[1], token)
        for (before, last), ids, levels in self._waiting:
            if last != _NONE:
                self._table.store(key_of(_NONE, last), ids, levels, self._mark)
            if before != _NONE:
                self._table.store(key_of(before, last), ids, levels, self._mark)
        self._waiting = []

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        tokens: list[int] = []
        parents: list[int] = []
        probs: list[float] = []
        heap: list[tuple[float, int, int, int, float, _Context]] = []
        order = 0
        context, node, reach = self._recent, ROOT, 1.0
        while True:
            answer, base = self._answer(context)
            if answer is not None:
                for rank, token in enumerate(answer.tokens):
                    prob = self._rates[base + _cell(answer, rank)].value
                    if token != _NONE and reach * prob > floor:
                        heapq.heappush(heap, (-reach * prob, order, token, node, prob, (context[1], token)))
                        order += 1
            if not heap or len(tokens) >= limit:
                return DraftTree(tuple(tokens), tuple(parents), tuple(probs), (self.name,) * len(tokens))
            negative, _, token, parent, prob, context = heapq.heappop(heap)
            node, reach = len(tokens), -negative
            tokens.append(token)
            parents.append(parent)
            probs.append(prob)

    def nbytes(self) -> int:
        return self._table.nbytes()

    def saved(self) -> bytes:
        return self._table.saved()

    def restore(self, data: bytes, vocab_size: int) -> None:
        self._table.restore(data, vocab_size)

    def _answer(self, context: _Context) -> tuple[Answer | None, int]:
        """To two tokens if there is one, else to the last; and where the rates of such answers begin."""
        before, last = context
        if before != _NONE and (answer := self._table.find(key_of(before, last))) is not None:
            return self._fresh(answer), len(self._rates) // 2
        return (None if last == _NONE else self._fresh(self._table.find(key_of(_NONE, last)))), 0

    def _fresh(self, answer: Answer | None) -> Answer | None:
        """With 1 for a mark if the answer is of the current sequence, else 0."""
        return None if answer is None else answer._replace(mark=int(answer.mark == self._mark))

    def _followed(self, token: int, successor: int) -> None:
        key = key_of(_NONE, token)
        known = self._table.find(key)
        tokens, levels = [_NONE] * WIDTH, bytes(WIDTH)
        if known is not None:
            if known.tokens[0] == successor and known.mark == self._mark:
                return
            others = [at for at in range(WIDTH) if known.tokens[at] != successor][: WIDTH - 1]
            tokens, levels = [known.tokens[at] for at in others], bytes(known.levels[at] for at in others)
        self._table.store(key, [successor, *tokens][:WIDTH], bytes([_SEEN, *levels][:WIDTH]), self._mark)


class _Rate:
    """How often something was right; ``value`` is that as a probability."""

    __slots__ = ("_right", "_seen", "value")

    def __init__(self, prior: float) -> None:
        self._right, self._seen, self.value = prior * _PRIOR, _PRIOR, prior

    def observe(self, right: bool) -> None:
        self._right += right
        self._seen += 1.0
        if self._seen > _MEMORY:
            self._right, self._seen = 0.5 * self._right, 0.5 * self._seen
        self.value = self._right / self._seen


def _cell(answer: Answer, rank: int) -> int:
    """The rate of an answer's token: by whether the answer is fresh, its level, and whether it is first."""
    return (LEVELS * answer.mark + answer.levels[rank]) * 2 + (rank > 0)


def _cell_priors() -> list[float]:
    chances = [(level + 0.5) / LEVELS for level in range(LEVELS) for _first in (True, False)]
    return [_FADED * chance for chance in chances] + chances
