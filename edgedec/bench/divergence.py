"""How far logits are from reference logits: agreement of the best token, and KL divergence in nats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgedec.bench.summary import rounded

_CHUNK_ELEMENTS = 4 << 20
"""Logits compared at a time, as float64: 32 MB an array."""


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Row-wise log probabilities f64[R, V] of logits f32[R, V]."""
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    wide -= np.log(np.exp(wide).sum(axis=1, keepdims=True))
    return wide


@dataclass(slots=True)
class Divergence:
    """Running comparison of one side with the reference, row by row. ``kl[i]`` is KL(reference || side)."""

    agreed: list[bool] = field(default_factory=list)
    kl: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    """-log p(next token of the text) of the side, for rows whose next token is known."""
    reference_loss: list[float] = field(default_factory=list)

    def add(
        self, reference: NDArray[np.float32], side: NDArray[np.float32], following: Sequence[int]
    ) -> None:
        """Compare logits f32[R, V], a few rows at a time; ``following[i]`` is the text's token after row i.

        A wider table of one of them (a vocabulary padded with rows that stand for no token) is cut to the
        narrower one. There may be fewer ``following`` than rows.
        """
        width = min(reference.shape[1], side.shape[1])
        step = max(1, _CHUNK_ELEMENTS // width)
        for start in range(0, len(reference), step):
            chunk = slice(start, start + step)
            self._add(reference[chunk, :width], side[chunk, :width], following[chunk])

    def _add(
        self, reference: NDArray[np.float32], side: NDArray[np.float32], following: Sequence[int]
    ) -> None:
        self.agreed += (reference.argmax(axis=1) == side.argmax(axis=1)).tolist()
        log_p, log_q = log_softmax(reference), log_softmax(side)
        known = np.arange(len(following))
        self.reference_loss += (-log_p[known, following]).tolist()
        self.loss += (-log_q[known, following]).tolist()
        self.kl += (np.exp(log_p) * (log_p - log_q)).sum(axis=1).tolist()

    @property
    def top1_agreement(self) -> float:
        """Fraction of rows whose best token is the same."""
        return float(np.mean(self.agreed))

    @property
    def kl_mean(self) -> float:
        """Mean KL(reference || side) in nats."""
        return float(np.mean(self.kl))

    def as_json(self) -> dict[str, float | int]:
        return {
            "positions": len(self.kl),
            "disagreements": len(self.agreed) - sum(self.agreed),
            "top1_agreement": rounded(self.top1_agreement),
            "kl_mean": rounded(self.kl_mean),
            "kl_median": rounded(float(np.median(self.kl))),
            "kl_p99": rounded(float(np.percentile(self.kl, 99))),
            "kl_max": rounded(max(self.kl)),
            "perplexity": rounded(float(np.exp(np.mean(self.loss)))),
            "reference_perplexity": rounded(float(np.exp(np.mean(self.reference_loss)))),
        }
