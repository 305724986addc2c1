"""Bytes that passes read and operations that they do: the work that time and energy go into."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple

from edgedec.core.experts import Experts
from edgedec.core.quick_dataclass import dataclass
from edgedec.metrics.mbsu import Weights
from edgedec.telemetry.energy.estimate import OPERATIONS_EACH


class Work(NamedTuple):
    """Counts of passes.

    ``passes``: of one that several sequences share, a part may be counted. ``slots``: filled slots of the KV
    cache, added up over passes; ``window_slots``: the same for layers that see only a window.
    """

    passes: float = 0
    tokens: int = 0
    """Tokens fed, rejected drafts included."""
    slots: int = 0
    window_slots: int = 0

    def plus(self, tokens: int, slots: int, window: int) -> Work:
        """Return the counts with one more pass, over ``tokens``, behind which ``slots`` slots are filled.

        ``window``: slots that a layer with a window sees; 0 without such layers.
        """
        seen = min(slots, window)
        return Work(self.passes + 1, self.tokens + tokens, self.slots + slots, self.window_slots + seen)

    def with_more(self, other: Work) -> Work:
        """Return these counts and ``other`` together."""
        return Work(*map(operator.add, self, other))

    def since(self, before: Work) -> Work:
        """Return the counts that were added since ``before``."""
        return Work(*map(operator.sub, self, before))


@dataclass(frozen=True, slots=True)
class Traffic:
    """A model's weights in bytes, its KV cache in bytes per slot, and the products of one token.

    A pass reads all weights once, however many tokens it has, and every filled slot. Each token takes a
    product (a multiplication and an addition) with each weight. Attention's own products, a few percent at
    usual lengths, are not counted; nor is that a piece of a prompt leaves out the head.
    """

    weights: Weights
    slot_bytes: int
    window_slot_bytes: int
    products: int
    experts: Experts | None = None
    """Experts beside ``weights``. A pass reads those of its tokens: estimated as if each were as likely."""

    def bytes_read(self, work: Work) -> float:
        """Return the bytes that passes read."""
        kept = work.slots * self.slot_bytes + work.window_slots * self.window_slot_bytes
        return work.passes * (self.weights.streamed + self._experts_read(work)) + kept

    def _experts_read(self, work: Work) -> float:
        """Return the bytes of the experts that one of these passes reads."""
        if self.experts is None or not work.passes:
            return 0.0
        return self.experts.nbytes * self.experts.expected(work.tokens / work.passes)

    def operations(self, work: Work) -> float:
        """Return the operations that passes do."""
        return float(OPERATIONS_EACH * work.tokens * self.products)

    def operations_of(self, bytes_read: float) -> float:
        """Return the operations of passes over one token that read so many bytes of a like model."""
        return OPERATIONS_EACH * self.products * bytes_read / self.weights.streamed


def decoding_work(
    prompt: int, rounds: Sequence[tuple[int, int]], window: int, room: int | None = None
) -> Work:
    """Return the passes of decoding behind a prompt of ``prompt`` tokens.

    ``rounds``: drafted and accepted tokens of each pass after the prompt's. ``window``: slots that a layer
    with a window sees. ``room``: slots of a KV cache that evicts tokens; None where all stay.
    """
    work, slots = Work(), prompt
    for drafted, accepted in rounds:
        filled = slots + 1 + drafted
        work = work.plus(1 + drafted, filled if room is None else min(filled, room), window)
        slots += 1 + accepted
    return work
