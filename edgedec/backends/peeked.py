"""The tokens that a forward has run through its lower layers only, and how many of them a pass takes over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgedec.core.forward import Capabilities
from edgedec.core.rows import Keep, Rows


def peek_rows(rows: Rows, keep: Keep | None) -> Rows:
    """Return the rows of a peek that keeps the ids ``keep``. Raises ValueError for hidden states."""
    if rows.hidden:
        raise ValueError("a peek returns no hidden states: the extend after it does")
    return rows if keep is None else replace(rows, keep=keep)


class Peeked:
    """See ``Forward.peek``: all peeked tokens, their parents, and the layers that they went through."""

    def __init__(self) -> None:
        self.tokens: tuple[int, ...] = ()
        self.parents: tuple[int, ...] = ()
        self.exit = 0

    def __len__(self) -> int:
        return len(self.tokens)

    def joined(
        self, tokens: Sequence[int], parents: Sequence[int] | None, exit: int, caps: Capabilities
    ) -> tuple[int, ...]:
        """Return the parents of all peeked tokens once ``tokens`` are; those of another exit are dropped.

        Raises ValueError for an exit that does not exist, no tokens, and too many.
        """
        if exit not in caps.exits:
            raise ValueError(f"no exit after {exit} layers: there are {', '.join(map(str, caps.exits))}")
        if exit != self.exit:
            self.drop()
        first, end = len(self), len(self) + len(tokens)
        if not tokens:
            raise ValueError("a peek needs at least one token")
        if end > caps.max_pass:
            raise ValueError(f"{end} peeked tokens: at most {caps.max_pass}")
        added = range(first - 1, end - 1) if parents is None else parents
        if len(added) != len(tokens):
            raise ValueError(f"{len(added)} parents for {len(tokens)} tokens")
        return (*self.parents, *added)

    def add(self, tokens: Sequence[int], parents: tuple[int, ...], exit: int) -> None:
        """Record that ``tokens`` were peeked; ``parents`` are those of all."""
        self.tokens, self.parents, self.exit = (*self.tokens, *tokens), parents, exit

    def shared(self, tokens: Sequence[int], parents: Sequence[int]) -> int:
        """Return how many tokens of a pass, from the first on, are the peeked ones below the same parents."""
        most = min(len(self), len(tokens))
        for at in range(most):
            if tokens[at] != self.tokens[at] or parents[at] != self.parents[at]:
                return at
        return most

    def drop(self) -> None:
        """Forget all of it."""
        self.tokens, self.parents, self.exit = (), (), 0
