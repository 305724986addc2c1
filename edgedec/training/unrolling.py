"""Chains of draft steps over a whole text at once: their tokens, their mask, and how far they agree.

Row r of a text x_0 .. x_(T-1) is the chain that drafts after x_(r+1). Step 0 reads the hidden states of x_r
and the token x_(r+1), and guesses x_(r+2). Step i reads its own output of step i - 1 and the token x_(r+1+i).
Training-time test, EAGLE-3 (Li et al. 2025).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgedec.core.quick_dataclass import dataclass


def visible(rows: int, step: int = 0) -> NDArray[np.bool_]:
    """Return bool[rows, (step + 1) * rows]: the entries of steps 0..step that row r sees at ``step``.

    They are those of a chain while it is drafted: step 0 of every row up to its own, and its own later steps.
    """
    own = np.eye(rows, dtype=np.bool_)
    return np.concatenate([np.tril(np.ones((rows, rows), dtype=np.bool_)), *[own] * step], axis=1)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How chains of guesses agree with the target's own tokens."""

    reached: tuple[int, ...]
    """Chains that agreed until before depth i, by depth from 1 on."""
    agreed: tuple[int, ...]
    """Chains that agreed at depth i too."""
    rounds: int
    """Rounds of decoding the texts with such chains."""
    tokens: int
    """Tokens that these rounds commit."""

    @property
    def rates(self) -> list[float]:
        """Agreement by depth, given that all depths before agreed."""
        return [agreed / max(reached, 1) for agreed, reached in zip(self.agreed, self.reached, strict=True)]

    @property
    def tokens_a_pass(self) -> float:
        """Tokens that a round commits: the agreeing ones and the target's own."""
        return self.tokens / max(self.rounds, 1)

    def __add__(self, other: Agreement) -> Agreement:
        return Agreement(
            tuple(a + b for a, b in zip(self.reached, other.reached, strict=True)),
            tuple(a + b for a, b in zip(self.agreed, other.agreed, strict=True)),
            self.rounds + other.rounds,
            self.tokens + other.tokens,
        )


def no_agreement(depths: int) -> Agreement:
    """Return the sum of no texts."""
    return Agreement((0,) * depths, (0,) * depths, 0, 0)


def agreement(hits: NDArray[np.bool_]) -> Agreement:
    """Count ``hits`` bool[rows, depths]: whether guess i of the chain after each token was the target's.

    A guess counts at depth i where all before it hit. Rounds follow each other as in decoding: after a hits,
    the next round starts a + 1 rows further.
    """
    so_far = np.logical_and.accumulate(hits, axis=1)
    before = np.concatenate([np.ones((len(hits), 1), dtype=np.bool_), so_far[:, :-1]], axis=1)
    lengths = so_far.sum(axis=1)
    rounds, row = 0, 0
    while row < len(hits):
        rounds += 1
        row += int(lengths[row]) + 1
    counts = [tuple(int(count) for count in table.sum(axis=0)) for table in (before, so_far)]
    return Agreement(counts[0], counts[1], rounds, len(hits) if rounds else 0)
