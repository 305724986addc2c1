"""Prompt lookup: what followed when these tokens stood here before.

After prompt lookup decoding (Saxena 2023) and SAM-Decoding (Hu et al. 2024), without an automaton.
Matches are found as compressors find them (LZ77 hash chains): a table from the hash of two tokens to where
they stood last, and from there to where before. Appending a token is two writes, forgetting one is two more,
memory is fixed in advance. Several matches make a tree: continuations share prefixes, and weigh more the
longer the match behind them is.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from edgedec.core.tree import DraftTree
from edgedec.core.types import HeadRows
from edgedec.draft.trie import Trie

_NOWHERE = -1
_SEPARATOR = -1
"""Stands in the log between sequences; no token, so that no match reaches across."""

_BUCKETS = 1 << 15
_LONGEST = 32
"""Tokens of context compared; longer matches say nothing more."""
_MATCHES = 24
"""Places looked at, the latest first."""
_REGRET = 64
"""A sequence that is cut by at most so much is continued; the cut tokens are forgotten."""


class Lookup:
    """Drafts from the committed tokens of this sequence and of earlier ones, up to ``capacity`` tokens."""

    name = "lookup"

    def __init__(self, capacity: int = 1 << 16) -> None:
        self._capacity = max(capacity, 2)
        self._log = array("i")
        self._before = array("i")  # same bucket, next older position
        self._latest = array("i", [_NOWHERE]) * _BUCKETS
        self._begin = 0  # of the current sequence

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        held = len(self._log) - self._begin
        if held - kept <= _REGRET:
            self._cut(self._begin + kept)
            self.commit(tokens[kept:])
            return
        self._append(_SEPARATOR)
        self._begin = len(self._log)
        self.commit(tokens)

    def commit(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self._append(token)
        if len(self._log) > self._capacity:
            self._forget_oldest()

    def learn(self, fed: Sequence[int], rows: HeadRows) -> None:
        """Nothing: only what was committed counts."""

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        trie = Trie(self.name)
        for position, length in self._matches():
            following = self._log[position + 1 : position + 1 + limit].tolist()
            if _SEPARATOR in following:
                following = following[: following.index(_SEPARATOR)]
            trie.insert(following, _weight(length))
        return trie.best(limit, floor)

    def nbytes(self) -> int:
        return 4 * (self._capacity * 2 + _BUCKETS)

    def _matches(self) -> list[tuple[int, int]]:
        """Positions where the latest tokens stood before, and how many of them."""
        end = len(self._log) - 1
        found: list[tuple[int, int]] = []
        if end - self._begin < 1:
            return found
        position = self._before[end]
        while position != _NOWHERE and len(found) < _MATCHES:
            length = self._common(position, end)
            if length >= 2:  # else another pair of tokens in the same bucket
                found.append((position, length))
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
        self._begin = max(self._begin - drop, 0)
        del self._log[:], self._before[:]
        self._latest = array("i", [_NOWHERE]) * _BUCKETS
        for token in kept:
            self._append(token)

    def _bucket(self, position: int) -> int:
        first = self._log[position - 1] if position else _SEPARATOR
        return (first * 0x9E3779B1 + self._log[position] * 0x85EBCA77) >> 7 & (_BUCKETS - 1)


def _weight(length: int) -> float:
    """How much a match of ``length`` tokens says compared with another: a chance coincidence halves fast."""
    return float(min(length, 16)) ** 2
