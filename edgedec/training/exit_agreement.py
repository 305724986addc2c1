"""How often ways to draft within a model agree with the model: on its own replies, which are read again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from edgedec.core.exits import Bypass
from edgedec.core.forward import Forward
from edgedec.core.progress import Steps
from edgedec.core.rows import FloatArray, HeadRows, Keep, Rows
from edgedec.draft.adapted import Adapted
from edgedec.draft.exit import Way
from edgedec.training.rollouts import Rollout

PIECE_TOKENS = 8
"""Tokens that are drafted after at a time. Behind a bypass they see each other as drafts would."""
_READING_TOKENS = 64
_NO_ROWS = Rows(indices=())


@dataclass(slots=True)
class Agreed:
    """How many tokens of replies a way said first, of ``tokens``: as it is, and corrected while decoding.

    ``edgedec.draft.adapted`` corrects: what it learned from earlier tokens is used where it helped lately.
    """

    tokens: int = 0
    right: int = 0
    corrected: int = 0
    _adapted: Adapted = field(default_factory=Adapted)

    @property
    def rate(self) -> float:
        """Share of the tokens that the way said, 0 to 1."""
        return self.right / max(self.tokens, 1)

    @property
    def corrected_rate(self) -> float:
        """The same with the correction."""
        return self.corrected / max(self.tokens, 1)

    def add(self, rows: HeadRows, came: Sequence[int]) -> None:
        """Count the tokens that came where the way answered ``rows``."""
        for row, token in enumerate(came):
            one = _row(rows, row)
            self.tokens += 1
            self.right += int(one.ids[0, 0]) == token
            self.corrected += int(self._adapted.corrected(one).ids[0, 0]) == token
            self._adapted.learn(one, 0, token)


def agreements(
    forward: Forward,
    replies: Sequence[Rollout],
    ways: Sequence[Way],
    *,
    keep: Keep | None,
    most_tokens: int,
    progress: Steps = lambda done, total: None,
) -> dict[Way, Agreed]:
    """Return for each way how many of the replies' tokens it says first.

    ``keep``: ids of the trimmed head. Not much more than ``most_tokens`` are asked for. Replies must be
    greedy, so that their tokens are the model's first ones.
    """
    found = {way: Agreed() for way in ways}
    count = 0
    for piece, came in _pieces(forward, replies, PIECE_TOKENS, most_tokens):
        for way in ways:
            rows = forward.peek(piece, exit=way.exit, rows=Rows(), keep=keep, bypass=way.bypass)
            found[way].add(rows, came)
        forward.extend(piece, rows=_NO_ROWS)
        count += len(piece)
        progress(min(count, most_tokens), most_tokens)
    return found


def _row(rows: HeadRows, row: int) -> HeadRows:
    only = slice(row, row + 1)
    return HeadRows(rows.values[only], rows.ids[only], rows.logsumexp[only], rows.entropy[only])


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
