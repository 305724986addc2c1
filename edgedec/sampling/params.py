"""Settings of the sampler."""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgedec.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Validated sampling settings; every default is "off", so ``SamplingParams()`` is greedy decoding.

    They apply in this order: repetition penalty, top-n-sigma, temperature, top-k, top-p, min-p.
    Raises UsageError for a value outside its range.
    """

    temperature: float = 0.0
    """0 = greedy (the highest logit after the penalty); otherwise logits are divided by it."""
    top_k: int = 0
    """Keep this many highest logits; 0 = all."""
    top_p: float = 1.0
    """Keep the smallest set of highest logits whose probability reaches this; 1 = all."""
    min_p: float = 0.0
    """Keep tokens at least this probable relative to the most probable one; 0 = all."""
    top_n_sigma: float = 0.0
    """Keep logits within this many standard deviations (over the vocabulary) of the highest; 0 = all."""
    repetition_penalty: float = 1.0
    """Logits of tokens seen before are divided (if positive) or multiplied (if negative) by it; 1 = off."""
    seed: int = 0
    """Seed of the noise; the same seed, sequence and settings give the same tokens."""

    def __post_init__(self) -> None:
        _check("temperature", self.temperature, 0.0 <= self.temperature < math.inf, "0 (greedy) or more")
        _check("top-k", self.top_k, _integer(self.top_k) and self.top_k >= 0, "0 (off) or a positive integer")
        _check("top-p", self.top_p, 0.0 < self.top_p <= 1.0, "above 0 and at most 1 (off)")
        _check("min-p", self.min_p, 0.0 <= self.min_p <= 1.0, "between 0 (off) and 1")
        _check("top-n-sigma", self.top_n_sigma, 0.0 <= self.top_n_sigma < math.inf, "0 (off) or more")
        penalty = self.repetition_penalty
        _check("repetition penalty", penalty, 0.0 < penalty < math.inf, "above 0 (1 is off)")
        _check("seed", self.seed, _integer(self.seed) and 0 <= self.seed < 1 << 64, "from 0 to 2^64 - 1")

    @property
    def greedy(self) -> bool:
        """Whether the noise plays no part."""
        return self.temperature == 0.0


def _integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check(name: str, value: float, ok: bool, allowed: str) -> None:
    if not ok:
        raise UsageError(f"{name} cannot be {value}", hint=f"it must be {allowed}")
