"""The rules of recurrent states: the tokens that they cover, and how far one can go back.

A state covers the first ``applied`` tokens of its sequence, and the trail has the rows of those behind. A
pass that starts at ``start`` first applies all rows before ``start``. Behind a chain of more than ``undone``
tokens it applies the oldest of them, too, for the trail has no room for their rows. So a token can be taken
back as long as it was not applied; before that there is a checkpoint, a copy of the state, and the empty one.

Layers that keep a trail alone have nothing to apply: there ``applied`` is the first length that can be gone
back to, which is as far as rows are there.
"""

from __future__ import annotations

from edgedec.core.cache_kinds import TRAIL_SLOTS

_LOST = 1 << 62


class StateBook:
    """The tokens that the states of a sequence cover. ``undone``: most tokens that can be taken back.

    ``applies``: whether there are states beside the trails.
    """

    def __init__(self, undone: int, *, applies: bool = True) -> None:
        self.undone = undone
        self._applies = applies
        self.applied = 0
        self.checkpoint = 0
        """Tokens that the checkpoint covers; 0: it is the empty state."""

    def check(self, tokens: int, *, chain: bool) -> None:
        """Raise ValueError for a tree of more tokens than can be taken back."""
        if not chain and tokens > self.undone:
            raise ValueError(f"a tree of {tokens} tokens: recurrent states take back at most {self.undone}")

    def passed(self, start: int, tokens: int, *, chain: bool) -> bool:
        """Record a pass; whether a checkpoint is worth its copy now: a prompt has been read."""
        least = start if self._applies else self.applied
        self.applied = max(least, start + tokens - self.undone)
        return chain and tokens > TRAIL_SLOTS

    def reachable(self, length: int) -> int:
        """Return the tokens that a rewind to ``length`` leaves."""
        if length >= self.applied:
            return length
        return self.checkpoint if length >= self.checkpoint else 0

    def rewind(self, length: int) -> None:
        """Go back to ``length``, which is reachable."""
        self.applied = min(self.applied, length)
        if length < self.checkpoint:
            self.checkpoint = 0

    def lose(self) -> None:
        """Record that a pass failed midway: only the checkpoint is reachable."""
        self.applied = _LOST
