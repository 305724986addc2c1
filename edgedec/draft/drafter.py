"""The interface of every drafter, and what one can do, as data.

A new drafter is a subclass of ``Drafter``; ``edgedec.drafters`` says how a run comes to have it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import FloatArray, HeadRows
from edgedec.core.tree import DraftTree
from edgedec.sampling import DrawParams


@dataclass(frozen=True, slots=True)
class DrafterCapabilities:
    """Abilities of a drafter beyond proposing tokens. The default: none of them."""

    looks_ahead: bool = False
    """``ahead`` says what may follow a text, whatever was drafted before."""
    remembers: bool = False
    """Its knowledge can outlive the process: ``saved`` and ``restore``."""
    every_round: bool = False
    """It needs the head rows of every round, also of those in which no draft can pay."""
    peeks: bool = False
    """It computes its drafts with ``Peeking.peek``: parts of the pass that follows. So a round asks one such
    drafter at most, and the pass begins with what ``peeked`` says.
    """


class Drafter(ABC):
    """Guesses the target's next tokens. A wrong guess costs time and never changes a token."""

    name: str
    """Unique among the drafters of a speculation; ``DraftTree.sources`` has it."""
    caps: DrafterCapabilities = DrafterCapabilities()
    taps: tuple[int, ...] = ()
    """Layers of the target whose outputs it needs: ``read`` brings them. Empty: none."""
    pretrained: bool = False
    """Whether it knew texts before its first query: replies of this target, or those that a model was trained
    on. Its first drafts are then trusted more.
    """
    useful_bytes: ClassVar[int] = 0
    """Memory for what it learns beyond which it drafts no better."""

    @classmethod
    def within(cls, nbytes: int) -> Self:
        """Make one that learns at most ``nbytes`` bytes. Default: one that learns nothing."""
        return cls()

    @abstractmethod
    def begin(self, tokens: Sequence[int], kept: int) -> None:
        """Start a new sequence of committed tokens; its first ``kept`` are the first of the one before."""

    @abstractmethod
    def commit(self, tokens: Sequence[int]) -> None:
        """Append ``tokens`` to the committed sequence."""

    @abstractmethod
    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        """Propose at most ``limit`` tokens to follow, parents before children; an empty tree for no idea.

        A token whose path is less probable than ``floor`` will not be fed: it need not be drafted.
        """

    def observe(self, tree: DraftTree, rows: HeadRows) -> None:
        """Hear the target's answers of a pass, before any of it is committed. Default: ignore them.

        rows[0] answers the last committed token and rows[1 + i] node i of ``tree``, rejected ones included.
        """
        return

    def read(self, start: int, hidden: FloatArray) -> None:
        """Take the outputs of the layers ``taps`` for the committed tokens from position ``start`` on.

        They lie side by side, f32[n, W]. Told behind each pass: over a piece of the prompt, or a round, for
        its committed tokens only. Positions can come again after ``begin``, with the same numbers, and can be
        missing. ``hidden`` is not to be kept. Default: ignore them.
        """
        return

    def sampled(self, params: DrawParams) -> None:
        """Note how the replies that follow are drawn; called before ``begin``. Default: ignore it."""
        return

    @property
    def peeked(self) -> int:
        """Tokens of the next pass that the last ``propose`` computed parts of. See ``peeks``."""
        return 0

    def nbytes(self) -> int:
        """Bytes held; bounded by what the drafter was made with."""
        return 0

    @property
    def bytes_read(self) -> int:
        """Bytes of weights and KV cache that its passes have read so far. Default: none, it has no model."""
        return 0

    @property
    def passes(self) -> int:
        """Passes of its model so far, those that only read text included. Default: none, it has no model."""
        return 0

    @property
    def table_bytes(self) -> int:
        """Bytes of the embedding table beyond ``bytes_read``, once for each pass so far.

        A pass looks up some rows of it. MBSU counts them in one of its conventions. Default: none.
        """
        return 0

    def ahead(self, tokens: Sequence[int], limit: int) -> list[int]:
        """At most ``limit`` tokens that may follow ``tokens``, the committed ones. See ``looks_ahead``."""
        raise NotImplementedError(f"{self.name} does not look ahead")

    def saved(self) -> bytes:
        """Its knowledge, in at most about ``nbytes()`` bytes. See ``remembers``."""
        raise NotImplementedError(f"{self.name} does not remember")

    def restore(self, data: bytes, vocab_size: int) -> None:
        """Take over what was ``saved``; called before the first ``begin``. See ``remembers``.

        Raises ValueError, and stays as it was, for bytes of another drafter or another vocabulary.
        """
        raise NotImplementedError(f"{self.name} does not remember")
