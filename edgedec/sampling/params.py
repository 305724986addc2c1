"""Settings of the sampler."""

from __future__ import annotations

from dataclasses import dataclass

from edgedec.core.errors import UsageError
from edgedec.core.preset import Preset, SamplingValues, whole


@dataclass(frozen=True, slots=True)
class DrawParams(SamplingValues):
    """How the tokens of a reply are drawn: every value of the sampler. Each default is "off".

    They apply in this order: repetition penalty, top-n-sigma, temperature, top-k, top-p, min-p.
    Raises UsageError for a value outside its range.
    """

    seed: int = 0
    """Seed of the noise; the same seed, sequence and settings give the same tokens."""

    def __post_init__(self) -> None:
        SamplingValues.__post_init__(self)  # super() does not find the class that slots make anew
        if not (whole(self.seed) and 0 <= self.seed < 1 << 64):
            raise UsageError(f"seed cannot be {self.seed}", hint="it must be from 0 to 2^64 - 1")

    @classmethod
    def of(cls, preset: Preset, seed: int = 0) -> DrawParams:
        """Return the settings of a model's preset."""
        return cls(**preset.drawing(), seed=seed)

    @property
    def greedy(self) -> bool:
        """Whether the noise plays no part."""
        return self.temperature == 0.0

    def summary(self) -> str:
        """Describe them in one line: ``temperature 0.2, top-p 0.9, seed 7``, or ``greedy``."""
        return self.in_words() if self.greedy else f"{self.in_words()}, seed {self.seed}"
