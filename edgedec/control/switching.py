"""Which of two models writes the next token: Entropy Adaptive Decoding.

The rule reads the entropy of the distribution that each token was drawn from, in bits, at temperature 1, of
the model that wrote it. Its mean over the last tokens says how hard the text is here. Above ``high_bits`` the
small model hands over to the large one, below ``low_bits`` the large one hands back. Entropies of two models
are not calibrated to each other, so there are two thresholds. A run of one model has at least ``least_run``
tokens, because the other one has to read what it missed.

Source: Simonds, "Entropy Adaptive Decoding: Dynamic Model Switching for Efficient Inference", 2025, which
has one threshold.
"""

from __future__ import annotations

import math
from collections import deque

from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass

WINDOW_TOKENS = 5
LEAST_RUN_TOKENS = 10


@dataclass(frozen=True, slots=True)
class SwitchRule:
    """Thresholds in bits, and numbers of tokens.

    ``high_bits`` of infinity: the small model writes everything. Both thresholds below 0: the large one does.
    Raises UsageError for thresholds that are no numbers or in the wrong order, and for counts below 1.

    >>> SwitchRule(low_bits=0.4, high_bits=0.8)
    SwitchRule(low_bits=0.4, high_bits=0.8, window=5, least_run=10)
    """

    low_bits: float
    """The large model hands back where the mean entropy of its last tokens is below this."""
    high_bits: float
    """The small model hands over where the mean entropy of its last tokens is above this."""
    window: int = WINDOW_TOKENS
    """Tokens whose mean entropy counts."""
    least_run: int = LEAST_RUN_TOKENS
    """Fewest tokens that one model writes in a row."""

    def __post_init__(self) -> None:
        if math.isnan(self.low_bits) or math.isnan(self.high_bits) or self.low_bits > self.high_bits:
            raise UsageError(
                f"thresholds of {self.low_bits} and {self.high_bits} bits are not possible",
                hint="give the lower one first, for example 0.4 and 0.8",
            )
        if self.window < 1 or self.least_run < 1:
            raise UsageError(
                f"a window of {self.window} and runs of {self.least_run} tokens are not possible",
                hint="use 1 or more",
            )


DEFAULT_RULE = SwitchRule(low_bits=0.5, high_bits=1.0)


def beside_itself(name: str) -> UsageError:
    """Return the error for a model that is to take turns with itself."""
    return UsageError(
        f"{name} cannot take turns with itself", hint="name a smaller model beside it, or run it alone"
    )


class EntropySwitching:
    """Decides token by token, as ``rule`` says, which model writes one reply.

    The mean over no tokens counts as 0: the small model begins, unless ``high_bits`` is below 0. A large
    model whose entropies are unknown hands back after the least run, unless ``low_bits`` is below 0.
    """

    def __init__(self, rule: SwitchRule) -> None:
        self._rule = rule
        self._large = rule.high_bits < 0.0
        self._last: deque[float] = deque(maxlen=rule.window)
        self._run = 0

    @property
    def large(self) -> bool:
        """Whether the large model writes now."""
        return self._large

    def add(self, entropy_bits: float | None) -> bool:
        """Count a token, and return whether the other model should write the next one.

        ``entropy_bits``: of the distribution that the token was drawn from; None where it is unknown.
        """
        self._run += 1
        if entropy_bits is not None:
            self._last.append(entropy_bits)
        if self._run < self._rule.least_run:
            return False
        if not self._last:
            return self._large and self._rule.low_bits >= 0.0
        mean = math.fsum(self._last) / len(self._last)
        return mean < self._rule.low_bits if self._large else mean > self._rule.high_bits

    def switch(self) -> None:
        """Let the other model write from now on. Entropies of this one do not count any more."""
        self._large = not self._large
        self._last.clear()
        self._run = 0
