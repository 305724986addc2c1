"""How often ways to draft within a model agree with the model: on its own replies, which are read again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from edgedec.core.exits import Bypass
from edgedec.core.forward import Forward
from edgedec.core.progress import Steps
from edgedec.core.rows import FloatArray, Keep, Rows
from edgedec.draft.exit import Way
from edgedec.training.rollouts import Rollout

PIECE_TOKENS = 8
"""Tokens that are drafted after at a time. Behind a bypass they see each other as drafts would."""
_READING_TOKENS = 64
_NO_ROWS = Rows(indices=())


def agreements(
    forward: Forward,
    replies: Sequence[Rollout],
    ways: Sequence[Way],
    *,
    keep: Keep | None,
    most_tokens: int,
    progress: Steps = lambda done, total: None,
) -> dict[Way, float]:
    """Return for each way the share of the replies' tokens that it says first.

    ``keep``: ids of the trimmed head. Not much more than ``most_tokens`` are asked for. Replies must be
    greedy, so that their tokens are the model's first ones.
    """
    right = dict.fromkeys(ways, 0)
    count = 0
    for piece, came in _pieces(forward, replies, PIECE_TOKENS, most_tokens):
        for way in ways:
            rows = forward.peek(piece, exit=way.exit, rows=Rows(), keep=keep, bypass=way.bypass)
            right[way] += int(np.sum(rows.ids[:, 0] == np.array(came)))
        forward.extend(piece, rows=_NO_ROWS)
        count += len(piece)
        progress(min(count, most_tokens), most_tokens)
    return {way: hits / max(count, 1) for way, hits in right.items()}


def exit_rows(
    forward: Forward, replies: Sequence[Rollout], exits: Sequence[int], most_tokens: int
) -> Iterator[dict[int, FloatArray]]:
    """Yield rows after each of ``exits``, f32[T, hidden size], of T tokens of the replies at a time."""
    last = forward.caps.exits[-1]
    for piece, _ in _pieces(forward, replies, _READING_TOKENS, most_tokens):
        found: dict[int, FloatArray] = {}
        for exit in exits:
            bypass = Bypass(last, _noted(found, exit))
            forward.peek(piece, exit=exit, rows=_NO_ROWS, bypass=bypass)
        forward.extend(piece, rows=_NO_ROWS)
        yield found


def _noted(found: dict[int, FloatArray], exit: int) -> Callable[[FloatArray], FloatArray]:
    def note(rows: FloatArray) -> FloatArray:
        found[exit] = rows.copy()
        return rows

    return note


def _pieces(
    forward: Forward, replies: Sequence[Rollout], size: int, most_tokens: int
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield pieces of texts, and the tokens of the reply that follow each of their tokens.

    Whatever comes before a piece is in the cache of ``forward``; the caller appends the piece.
    """
    count = 0
    for one in replies:
        text = [*one.prompt, *one.reply][: forward.capacity]
        start, end = max(len(one.prompt) - 1, 0), len(text) - 1
        forward.rewind(0)
        for at in range(0, start, _READING_TOKENS):
            forward.extend(text[at : min(at + _READING_TOKENS, start)], rows=_NO_ROWS)
        while start < end:
            if count >= most_tokens:
                return
            piece = text[start : min(start + size, end)]
            yield piece, text[start + 1 : start + 1 + len(piece)]
            start += len(piece)
            count += len(piece)
