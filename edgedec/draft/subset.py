"""The subset of a vocabulary that a trimmed head computes: the ids that replies are made of.

A drafter's head reads one row of its table for each id. Replies use few of them: VocabTrim (Goel et al. 2025)
counts the ids that the target generates, and keeps the most frequent. The target verifies with its whole
head, so a token outside the subset costs a draft, never a token.

Two rules choose. ``best_ids`` takes single ids. ``best_tiles`` takes whole tiles of ``TILE`` rows, which the
kernel reads and computes at once: rows of a tile that has a kept one cost nothing more. It may take stretches
of several tiles, which are read quicker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgedec.core.rows import Keep

if TYPE_CHECKING:
    from edgedec.text.tokenizer import Tokenizer

Counts = NDArray[np.int64]
Frequencies = NDArray[np.float64] | Counts

TILE = 16
"""Rows of the head's table that are computed together."""
STRETCH = 4 * TILE
"""Rows that are read without a pause: a kernel computes four tiles at a time, and reads ahead."""

_CLOSING = (
    *("\n", "\n\n", "    ", "```", "```\n", '"""', " {", " [", " (", ' "', "()", "[]", "{}"),
    *('",', '":', '"}', '"]', '")', "',", "':", "')", "']", '";', '."', "`,", "`."),
    *("},", "],", "),", "};", "];", ");", "):", "]:", "}}", "]]", "))", "]}", "})", "])", ").", "/>", "</"),
)
"""Common tokens that open or close JSON, code and fences, beside those of one byte."""
_PRIOR_TOKENS = 10_000
_PRIOR_FLAT_IDS = 1_000
_UNUSED = re.compile(r"unused|reserved|extra_id", re.IGNORECASE)


def counted(replies: Iterable[Sequence[int]], vocab_size: int) -> Counts:
    """Count how often each id occurs in ``replies``: i64[vocab_size]."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    for reply in replies:
        counts += np.bincount(np.asarray(reply, dtype=np.int64), minlength=vocab_size)
    return counts


def always_kept(tokenizer: Tokenizer, ends: Iterable[int]) -> Keep:
    """Return the ids that are kept however rare they are, ascending.

    ``ends``: tokens that begin and end a text. Beside them: control tokens except unused ones, the 256 single
    bytes, and tokens that open or close JSON and code.
    """
    controls = (token for text, token in tokenizer.control_ids().items() if not _UNUSED.search(text))
    bytes_ = (tokenizer.id_of(bytes([value])) for value in range(256))
    found = {*ends, *controls, *bytes_, *(tokenizer.id_of(piece.encode()) for piece in _CLOSING)}
    return np.array(sorted(token for token in found if token is not None), dtype=np.int64)


def expected(counts: Counts) -> Frequencies:
    """Return how frequent each id is probably: as counted, with a little of a general distribution.

    Vocabularies list their tokens from frequent to rare, about as 1 / rank. A few thousand tokens of that one
    rank the ids that the counted replies lack.
    """
    general = 1.0 / (_PRIOR_FLAT_IDS + np.arange(counts.size))
    return counts.astype(np.float64) + _PRIOR_TOKENS / float(general.sum()) * general


def best_ids(frequencies: Frequencies, always: Keep, size: int) -> Keep:
    """Return ``size`` ids, ascending: those of ``always``, then the most frequent (ties: the lower id).

    There are more where ``always`` has more, and fewer where the vocabulary has.
    """
    rank = frequencies.astype(np.float64)
    rank[always] = np.inf
    order = np.argsort(-rank, kind="stable")
    return np.sort(order[: max(size, always.size)])


def best_tiles(frequencies: Frequencies, always: Keep, size: int, rows: int = TILE) -> Keep:
    """Return the ids of about ``size / rows`` whole stretches of ``rows`` ids, ascending.

    First come stretches with an id of ``always``, then those with the greatest sum of frequencies (ties: the
    lower one). The last one of a vocabulary may be a partial one.
    """
    count = frequencies.size
    stretches = -(-count // rows)
    sums = np.zeros(stretches * rows)
    sums[:count] = frequencies
    forced = np.zeros(stretches, dtype=np.int64)
    forced[always // rows] = 1
    chosen = best_ids(sums.reshape(stretches, rows).sum(axis=1), np.flatnonzero(forced), size // rows)
    ids = (chosen[:, None] * rows + np.arange(rows)).ravel()
    return ids[ids < count]


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
