"""Pieces of prompts that ride along with replies: short ones, so that replies go on while a prompt is read.

A piece is so long that a pass with it takes ``_SLOWER`` times as long as one over the replies' tokens alone.
The passes themselves show what that is.
"""

from __future__ import annotations

from dataclasses import replace

from edgedec.backends.backend import PassRequest
from edgedec.core.rows import Rows

SHORTEST = 8
"""Tokens of a piece. Shorter passes take longer per token."""
_SHORT_TOKENS = 16
"""Tokens of a request that is never cut."""
_LONGEST = 128
_SLOWER = 2.5
_WEIGHT = 0.2
"""Weight of a new time among earlier ones."""


class PieceSize:
    """The number of prompt tokens in a pass beside those of replies."""

    def __init__(self) -> None:
        self._replies_s: float | None = None
        """Seconds of a pass without a piece; None before there was one."""
        self._token_s = 0.0
        """Seconds that a token of a piece adds."""

    @property
    def tokens(self) -> int:
        """Tokens of the next pass's pieces; 0 until a pass has shown what replies take alone.

        Otherwise all prompts at the beginning would be read in the shortest pieces.
        """
        if self._replies_s is None:
            return 0
        if not self._replies_s or not self._token_s:
            return SHORTEST
        return int(min(max((_SLOWER - 1.0) * self._replies_s / self._token_s, SHORTEST), _LONGEST))

    def passed(self, seconds: float, pieces: int) -> None:
        """Note a pass over replies and ``pieces`` tokens of prompts."""
        if not pieces:
            self._replies_s = _mixed(self._replies_s, seconds)
        elif self._replies_s:
            least = 0.01 * self._replies_s / pieces
            self._token_s = _mixed(self._token_s, max((seconds - self._replies_s) / pieces, least))


def spare_tokens(request: PassRequest) -> int:
    """Return how many of a request's first tokens could have a pass of their own; 0 for a short one."""
    count = len(request.tokens)
    if request.parents is not None or count <= _SHORT_TOKENS:
        return 0
    return min(min(request.rows.resolve(count), default=count), count - 1)


def cut(request: PassRequest, tokens: int) -> tuple[PassRequest, PassRequest]:
    """Divide a request: its first ``tokens``, of which no rows are wanted, and the others."""
    rows = request.rows
    if not rows.last:
        rows = replace(rows, indices=tuple(row - tokens for row in rows.resolve(len(request.tokens))))
    first = replace(request, tokens=request.tokens[:tokens], rows=Rows(()))
    return first, replace(request, tokens=request.tokens[tokens:], rows=rows)


def _mixed(before: float | None, seconds: float) -> float:
    return before + _WEIGHT * (seconds - before) if before else seconds
