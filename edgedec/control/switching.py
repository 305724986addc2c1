"""Which of two models writes the next token: by the entropy of the small one's distribution for it.

A token of which the small model is not sure is not taken: the large one writes it, and goes on until it is
sure itself. Entropies are in bits, at temperature 1. There is one threshold, as in Simonds, "Entropy Adaptive
Decoding: Dynamic Model Switching for Efficient Inference", 2025. That paper takes the mean over the last
tokens, which says little of the next one.
"""

from __future__ import annotations

import math

from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SwitchRule:
    """A threshold in bits, and a number of tokens.

    ``bits`` of infinity: the small model writes everything. Below 0: the large one does. Raises UsageError
    for a threshold that is no number, and for runs below 1.

    >>> SwitchRule(bits=0.8)
    SwitchRule(bits=0.8, least_run=1)
    """

    bits: float
    """The large model writes a token where the small one's entropy is above this, and hands back below it."""
    least_run: int = 1
    """Fewest tokens that the large model writes in a row; most of one request to a model elsewhere."""

    def __post_init__(self) -> None:
        if math.isnan(self.bits) or self.least_run < 1:
            raise UsageError(
                f"a threshold of {self.bits} bits and runs of {self.least_run} tokens are not possible",
                hint="use for example 1 bit and 1 token",
            )


DEFAULT_RULE = SwitchRule(1.2)
REMOTE_RULE = SwitchRule(1.2, least_run=10)
"""The usual rule where each run of the large model is a request to a server."""


def beside_itself(name: str) -> UsageError:
    """Return the error for a model that is to take turns with itself."""
    return UsageError(
        f"{name} cannot take turns with itself", hint="name a smaller model beside it, or run it alone"
    )


class EntropySwitching:
    """Decides token by token, as ``rule`` says, which model writes one reply.

    The small model begins, unless ``bits`` is below 0. A token of unknown entropy counts as a sure one.
    """

    def __init__(self, rule: SwitchRule) -> None:
        self._rule = rule
        self._large = rule.bits < 0.0
        self._run = 0

    @property
    def large(self) -> bool:
        """Whether the large model writes now."""
        return self._large

    def add(self, entropy_bits: float | None) -> bool:
        """Return whether the other model should write: this token if it is the small one's, else the next.

        ``entropy_bits``: of the distribution that the token was drawn from; None where it is unknown.
        """
        self._run += 1
        unsure = max(entropy_bits or 0.0, 0.0) > self._rule.bits
        return not unsure and self._run >= self._rule.least_run if self._large else unsure

    def switch(self) -> None:
        """Let the other model write from now on."""
        self._large = not self._large
        self._run = 0
