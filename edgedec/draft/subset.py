"""The subset of a vocabulary that a trimmed head computes: the ids that replies are made of.

A drafter's head reads one row of its table for each id. Replies use few of them: VocabTrim (Goel et al. 2025)
counts the ids that the target generates, and keeps the most frequent. The target verifies with its whole
head, so a token outside the subset costs a draft, never a token.

Two rules choose. ``best_ids`` takes single ids. ``best_tiles`` takes whole tiles of ``TILE`` rows, which the
kernel reads and computes at once: rows of a tile that has a kept one cost nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgedec.core.rows import Keep

Counts = NDArray[np.int64]

TILE = 16
"""Rows of the head's table that are computed together."""

_QUOTES = ('"', "'", "`", "```", '"""', "'''")
_CLOSERS = ("}", "]", ")", "}}", "]]", "))", "]}", "}]", ")}", "})", "])", ")]", "()", "[]", "{}", "{", "[")
_FOLLOWERS = (",", ":", ";", ".", "\n", ",\n", ":\n", ";\n", ".\n", "\n\n")
_UNUSED = re.compile(r"unused|reserved|extra_id", re.IGNORECASE)


class Spelling(Protocol):
    """The functions of a tokenizer that say which ids are always kept."""

    @property
    def size(self) -> int: ...

    def id_of(self, piece: bytes) -> int | None: ...

    def control_ids(self) -> dict[str, int]: ...


def counted(replies: Iterable[Sequence[int]], vocab_size: int) -> Counts:
    """Count how often each id occurs in ``replies``: i64[vocab_size]."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    for reply in replies:
        counts += np.bincount(np.asarray(reply, dtype=np.int64), minlength=vocab_size)
    return counts


def always_kept(tokenizer: Spelling, ends: Iterable[int]) -> Keep:
    """Return the ids that are kept however rare they are, ascending.

    ``ends``: tokens that begin and end a text. Beside them: control tokens except unused ones, the 256 single
    bytes, spaces and newlines, and tokens that open or close JSON and code.
    """
    controls = (token for text, token in tokenizer.control_ids().items() if not _UNUSED.search(text))
    bytes_ = (tokenizer.id_of(bytes([value])) for value in range(256))
    found = {*ends, *controls, *bytes_, *(tokenizer.id_of(piece.encode()) for piece in _closing_pieces())}
    return np.array(sorted(token for token in found if token is not None), dtype=np.int64)


def best_ids(counts: Counts, always: Keep, size: int) -> Keep:
    """Return ``size`` ids, ascending: those of ``always``, then the most frequent (ties: the lower id).

    There are more where ``always`` has more, and fewer where the vocabulary has.
    """
    rank = counts.copy()
    rank[always] = np.iinfo(np.int64).max
    order = np.argsort(-rank, kind="stable")
    return np.sort(order[: max(size, always.size)])


def best_tiles(counts: Counts, always: Keep, size: int) -> Keep:
    """Return the ids of about ``size / TILE`` whole tiles, ascending.

    First come tiles with an id of ``always``, then those with the most frequent ids, by the sum of their
    counts (ties: the lower tile). The last tile of a vocabulary may be a partial one.
    """
    tiles = -(-counts.size // TILE)
    sums = np.zeros(tiles * TILE, dtype=np.int64)
    sums[: counts.size] = counts
    forced = np.zeros(tiles, dtype=np.int64)
    forced[always // TILE] = 1
    chosen = best_ids(sums.reshape(tiles, TILE).sum(axis=1), np.flatnonzero(forced), size // TILE)
    ids = (chosen[:, None] * TILE + np.arange(TILE)).ravel()
    return ids[ids < counts.size]


def tiles_of(keep: Keep) -> int:
    """Return how many tiles a pass over the rows of ``keep`` reads."""
    return int(np.unique(keep // TILE).size)


def coverage(keep: Keep, counts: Counts) -> float:
    """Return the share of the counted tokens that are in ``keep``; 1.0 where none were counted."""
    total = int(counts.sum())
    return float(counts[keep].sum()) / total if total else 1.0


def coverages(keep: Keep, counts: Mapping[str, Counts]) -> dict[str, float]:
    """Return the coverage of each category's counts."""
    return {name: coverage(keep, some) for name, some in counts.items()}


def fault_of(keep: Keep, vocab_size: int, ends: Iterable[int]) -> str | None:
    """Say what is wrong with ``keep``; None for ids that a head can be trimmed to.

    They are ascending and unique, inside the vocabulary, and all of ``ends`` are among them.
    """
    if not keep.size:
        return "it keeps no tokens"
    if (np.diff(keep) <= 0).any():
        return "its ids do not ascend"
    if keep[0] < 0 or keep[-1] >= vocab_size:
        return f"it has ids outside a vocabulary of {vocab_size}"
    missing = sorted(set(ends) - set(keep.tolist()))
    return f"it lacks the end token {missing[0]}" if missing else None


def _closing_pieces() -> Iterable[str]:
    marks = (*_QUOTES, *_CLOSERS)
    pairs = (first + second for first in marks for second in (*_FOLLOWERS, *_CLOSERS, '"', "'"))
    bare = (*marks, *_FOLLOWERS, *pairs, " ", "  ", "    ", "\t", "<", ">", "</", "/>", "=", "-", "#")
    return (*bare, *(f" {piece}" for piece in bare), *(f"\n{mark}" for mark in marks))
