"""Prompt lookup: what followed when these tokens stood here before.

After prompt lookup decoding (Saxena 2023) and SAM-Decoding (Hu et al. 2024), without an automaton.
Matches are found as compressors find them (LZ77 hash chains): a table from the hash of two tokens to where
they stood last, and from there to where before. Appending a token is two writes, forgetting one is two more,
memory is fixed in advance. Several matches make a tree: continuations share prefixes, and a token's
probability is the weight of the matches that it follows, against that of the others and of doubt.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from edgedec.core.tree import DraftTree
from edgedec.core.types import HeadRows
from edgedec.draft.grow import best_first

_NOWHERE = -1
_SEPARATOR = -1
"""Stands in the log between sequences; no token, so that no match reaches across."""

_BUCKETS = 1 << 15
_LONGEST = 32
"""Tokens of context compared; longer matches say nothing more."""
_MATCHES = 12
"""Places looked at, the latest first."""
_WEIGHT = 0.6
"""Of a match, per token of it; doubt weighs 1. A single match of two tokens is right every second time."""
_FADED = 0.2
"""Matches in earlier sequences weigh so much less."""
_REGRET = 64
"""A sequence that is cut by at most so much is continued; the cut tokens are forgotten."""

_MOST_UNREAD = 64

_Match = tuple[int, float, float]
"""Where it goes on, what it weighs, and what it will weigh more with every further token."""


class Lookup:
    """Drafts from the committed tokens of this sequence and of earlier ones, up to ``capacity`` tokens."""

    name = "lookup"

    def __init__(self, capacity: int = 1 << 16) -> None:
        self._capacity = max(capacity, 2)
        self._log = array("i")
        self._before = array("i")  # same bucket, next older position
        self._latest = array("i", [_NOWHERE]) * _BUCKETS
        self._begin = 0  # of the current sequence, in the log
        self._unread: list[int] = []

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        self._read()
        held = len(self._log) - self._begin
        if held - kept <= _REGRET:
            self._cut(max(self._begin + kept, 0))
            self._extend(tokens[kept:])
            return
        self._new_sequence()
        self._extend(tokens)

    def commit(self, tokens: Sequence[int]) -> None:
        """Read when it is needed: a drafter that is not asked should cost next to nothing."""
        self._unread += tokens
        if len(self._unread) > _MOST_UNREAD:
            self._read()

    def _read(self) -> None:
        self._extend(self._unread)
        self._unread = []

    def _extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            if len(self._log) >= self._capacity:
                self._forget_oldest()
            self._append(token)

    def learn(self, tree: DraftTree, rows: HeadRows) -> None:
        """Nothing: only what was committed counts."""

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        self._read()
        return best_first(self._matches(), self._next, limit=limit, floor=floor, source=self.name)

    def _next(self, matches: list[_Match]) -> list[tuple[int, float, list[_Match]]]:
        """Each token that follows a match, its probability, and the matches that go on with it."""
        log, end = self._log, len(self._log)
        following: dict[int, tuple[list[float], list[_Match]]] = {}
        total = 1.0
        for position, weight, gain in matches:
            if position >= end or (token := log[position]) == _SEPARATOR:
                continue
            total += weight
            weights, longer = following.setdefault(token, ([], []))
            weights.append(weight)
            longer.append((position + 1, weight + gain, gain))
        return [(token, sum(weights) / total, longer) for token, (weights, longer) in following.items()]

    def nbytes(self) -> int:
        return 4 * (self._capacity * 2 + _BUCKETS)

    def saved(self) -> bytes:
        self._read()
        return self._log.tobytes()

    def restore(self, data: bytes, vocab_size: int) -> None:
        if len(data) % 4:
            raise ValueError("half a token")
        log = array("i", data)
        if log and (min(log) < _SEPARATOR or max(log) >= vocab_size):
            raise ValueError("tokens outside the vocabulary")
        self._extend(log)
        self._new_sequence()

    def _new_sequence(self) -> None:
        self._extend([_SEPARATOR])
        self._begin = len(self._log)

    def _matches(self) -> list[_Match]:
        """Of the latest tokens with earlier ones."""
        end = len(self._log) - 1
        found: list[_Match] = []
        if end - self._begin < 1:
            return found
        position = self._before[end]
        while position != _NOWHERE and len(found) < _MATCHES:
            length = self._common(position, end)
            if length >= 2:  # else another pair of tokens in the same bucket
                gain = _WEIGHT if position >= self._begin else _WEIGHT * _FADED
                found.append((position + 1, gain * length, gain))
            position = self._before[position]
        return found

    def _common(self, position: int, end: int) -> int:
        log, length = self._log, 0
        most = min(_LONGEST, position + 1, end + 1 - self._begin)
        while length < most and log[position - length] == log[end - length]:
            length += 1
        return length

    def _append(self, token: int) -> None:
        self._log.append(token)
        bucket = self._bucket(len(self._log) - 1)
        self._before.append(self._latest[bucket])
        self._latest[bucket] = len(self._log) - 1

    def _cut(self, length: int) -> None:
        while len(self._log) > length:
            self._latest[self._bucket(len(self._log) - 1)] = self._before.pop()
            self._log.pop()

    def _forget_oldest(self) -> None:
        """Keep the newer half; rebuilding costs less than a microsecond per token that it made room for."""
        drop = len(self._log) - self._capacity // 2
        kept = self._log[drop:]
        self._begin -= drop  # below 0 when the sequence has lost its first tokens
        del self._log[:], self._before[:]
        self._latest = array("i", [_NOWHERE]) * _BUCKETS
        for token in kept:
            self._append(token)

    def _bucket(self, position: int) -> int:
        first = self._log[position - 1] if position else _SEPARATOR
        return (first * 0x9E3779B1 + self._log[position] * 0x85EBCA77) >> 7 & (_BUCKETS - 1)
