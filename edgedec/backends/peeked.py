"""The tokens that a forward has run through its lower layers only, and how many of them a pass takes over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgedec.core.forward import Capabilities, Peeking
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import Parents, Rows


def check_peek(rows: Rows) -> None:
    """Raise ValueError for hidden states."""
    if rows.taps:
        raise ValueError("a peek returns no hidden states: the extend after it does")


@dataclass(frozen=True, slots=True)
class Peeked:
    """See ``Peeking.peek``: all peeked tokens, their parents, and the layers that they went through.

    ``resume``: the layers that they went on behind; None: they did not.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    exit: int = 0
    resume: int | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def at(self, exit: int, resume: int | None) -> Peeked:
        """Return what another peek at ``exit`` builds upon: nothing where the tokens went another way.

        Raises ValueError for a ``resume`` below it.
        """
        if resume is not None and resume < exit:
            raise ValueError(f"no way back from layer {exit} to layer {resume}")
        same = (exit, resume) == (self.exit, self.resume)
        return self if same else replace(NOTHING, exit=exit, resume=resume)

    def joined(self, tokens: Sequence[int], parents: Parents, caps: Capabilities) -> Peeked:
        """Return these with ``tokens`` behind them, as ``Peeking.peek`` gets them.

        Raises ValueError for an exit that does not exist, no tokens, and too many.
        """
        for exit in (self.exit, *(() if self.resume is None else (self.resume,))):
            if exit not in caps.exits:
                raise ValueError(f"no exit after {exit} layers: there are {', '.join(map(str, caps.exits))}")
        first, end = len(self), len(self) + len(tokens)
        if end == first:
            raise ValueError("a peek needs at least one token")
        if end > caps.max_pass:
            raise ValueError(f"{end} peeked tokens: at most {caps.max_pass}")
        added = range(first - 1, end - 1) if parents is None else parents
        if len(added) != len(tokens):
            raise ValueError(f"{len(added)} parents for {len(tokens)} tokens")
        return replace(self, tokens=(*self.tokens, *tokens), parents=(*self.parents, *added))

    def shared(self, tokens: Sequence[int], parents: Sequence[int]) -> int:
        """Return how many tokens of a pass, from the first on, are the peeked ones below the same parents."""
        most = min(len(self), len(tokens))
        for at in range(most):
            if tokens[at] != self.tokens[at] or parents[at] != self.parents[at]:
                return at
        return most


NOTHING = Peeked()


class PeekingForward(Peeking):
    """The tokens that a forward has peeked."""

    _peeked = NOTHING

    @property
    def peeked(self) -> tuple[int, ...]:
        """See ``Peeking.peeked``."""
        return self._peeked.tokens
