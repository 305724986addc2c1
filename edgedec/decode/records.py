"""Records of decoding: a committed token, a verdict and a pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Literal, NamedTuple

from edgedec.core.quick_dataclass import dataclass
from edgedec.core.tree import EMPTY, DraftTree

if TYPE_CHECKING:
    from edgedec.core.rows import HeadRows
    from edgedec.grammar import Constraint
    from edgedec.text.passage import Turns

FinishReason = Literal["stop", "length"]


class Step(NamedTuple):
    """One committed token."""

    token: int
    position: int
    """Absolute position in the sequence; the prompt's first token has 0."""
    finish_reason: FinishReason | None = None
    """Set on the last token of a reply."""
    source: str | None = None
    """The drafter that proposed the token; None for the target's own token, which ends each round."""
    logprob: float | None = None
    """Natural logarithm of the token's probability (temperature 1, no penalty); None unless asked for."""
    top: tuple[tuple[int, float], ...] = ()
    """The most probable tokens here, best first, as (id, logprob)."""
    entropy_bits: float | None = None
    """Entropy of the model's own distribution at this place, at temperature 1; None unless asked for."""
    bound: float | None = None
    """Mirostat's state after the token: the most bits of surprise that the next one may have."""
    writer: str | None = None
    """The model that wrote the token, where several take turns."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on a draft: accepted nodes from the root down; their tokens, and the target's own."""

    path: tuple[int, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReplyDetails:
    """Where a reply begins, the grammar that its tokens keep to, and figures that steps have beside them."""

    logprobs: int = 0
    """The log-probability of the token, and this many of the most probable ones; 0: none."""
    entropy: bool = False
    grammar: Constraint | None = field(default=None, compare=False)
    """At the place where the reply begins; it goes along with the committed tokens."""
    start: int | None = None
    """Tokens before the reply. The rest of the prompt it has said already; None: nothing of it."""
    bound: float | None = None
    """Mirostat's state behind what it has said already; None: as a reply begins."""
    turns: Turns = ()
    """The messages that it answers; none for a text. Of use where another model than its own reads them."""
    told: Callable[[HeadRows, int, int], None] | None = field(default=None, compare=False)
    """Is told each token that is drawn, behind the head rows of its pass and the number of its row there."""

    @property
    def at_one(self) -> bool:
        """Whether something about the distribution at temperature 1 is among them."""
        return self.entropy or bool(self.logprobs)


NO_DETAILS = ReplyDetails()


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One pass: ``fed`` tokens from slot ``start`` on, of which the last ``drafted`` are ``tree``.

    ``committed`` tokens came of it, ``path`` are the accepted nodes of ``tree``.
    ``seconds`` is None without a clock.
    """

    start: int
    fed: int
    committed: int
    seconds: float | None
    drafted: int = 0
    tree: DraftTree = EMPTY
    path: tuple[int, ...] = ()
