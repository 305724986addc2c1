"""MBSU, the memory-bounded speed-up: tokens gained by drafts for the bytes that drafting reads.

A pass of the target reads its weights once, and where memory bounds decoding that is the time of the pass. A
round reads them once too, and the drafter's as often as it takes steps: MBSU is the block efficiency over
(1 + bytes of all draft steps / bytes of a pass). It is the speed-up over plain decoding on a machine where a
pass over several tokens costs no more than one over a single token, and nothing but weights takes time.

Two conventions are in use. VocabTrim (Goel et al. 2025) compares numbers of parameters, which include the
drafter's input embedding. A step reads a single row of that table: ``streamed`` leaves it out.
"""

from __future__ import annotations

from edgedec.core.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes (or parameters: only ratios matter) of a model's weights.

    ``streamed``: read from end to end by a pass over one token. ``lookup``: all else that counts as a
    parameter, which is the part of the input embedding that the head does not read. It is 0 for a model whose
    head is the whole embedding table.
    """

    streamed: float
    lookup: float = 0.0

    @property
    def parameters(self) -> float:
        """All of them."""
        return self.streamed + self.lookup


@dataclass(frozen=True, slots=True)
class Mbsu:
    """The speed-up in both conventions."""

    streamed: float
    """The drafter costs the bytes that its steps read."""
    parameters: float
    """The drafter costs its parameters, the input embedding included."""


def mbsu(block_efficiency: float, steps: float, drafter: Weights, target: Weights) -> Mbsu:
    """Return the memory-bounded speed-up of rounds with ``steps`` draft steps each.

    ``block_efficiency``: tokens committed per round, the target's own token included.
    """
    return Mbsu(
        block_efficiency / (1.0 + steps * drafter.streamed / target.streamed),
        block_efficiency / (1.0 + steps * drafter.parameters / target.parameters),
    )


def chain_efficiency(acceptance: float, steps: int) -> float:
    """Return the block efficiency of chains of ``steps`` tokens, each right with chance ``acceptance``.

    A round commits the accepted tokens and one of the target's: 1 + a + a² + ... + a^steps.
    """
    return sum(acceptance**depth for depth in range(steps + 1))
