"""Settings of the sampler."""

from __future__ import annotations

from dataclasses import dataclass

from edgedec.core.errors import UsageError
from edgedec.core.preset import DRAWING, Preset, check_ranges, summary, whole


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
        check_ranges(self)
        if not (whole(self.seed) and 0 <= self.seed < 1 << 64):
            raise UsageError(f"seed cannot be {self.seed}", hint="it must be from 0 to 2^64 - 1")

    @classmethod
    def of(cls, preset: Preset, seed: int = 0) -> SamplingParams:
        """Return the settings of a model's preset."""
        return cls(**{name: getattr(preset, name) for name in DRAWING}, seed=seed)

    @property
    def greedy(self) -> bool:
        """Whether the noise plays no part."""
        return self.temperature == 0.0

    def summary(self) -> str:
        """Describe them in one line: ``temperature 0.2, top-p 0.9, seed 7``, or ``greedy``."""
        return summary(self) if self.greedy else f"{summary(self)}, seed {self.seed}"
