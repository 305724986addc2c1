"""Settings of the sampler."""

from __future__ import annotations

from edgedec.bundle.preset import Preset, SamplingValues, whole
from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.sampling.bias import frozen_bias


@dataclass(frozen=True, slots=True)
class DrawParams(SamplingValues):
    """How the tokens of a reply are drawn: every value of the sampler. Each default is "off".

    They apply in this order: logit bias, repetition penalty, frequency and presence penalties, top-n-sigma,
    temperature (lowered by edt), top-k, top-p, min-p, typical, eta, top-h, mirostat.
    Raises UsageError for a value outside its range.
    """

    seed: int = 0
    """Seed of the noise; the same seed, sequence and settings give the same tokens."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """Pairs of a token's id and a number from -100 to 100 that is added to its logit; -100 bans the token.
    A mapping will do.
    """

    def __post_init__(self) -> None:
        SamplingValues.__post_init__(self)  # super() does not find the class that slots make anew
        if not (whole(self.seed) and 0 <= self.seed < 1 << 64):
            raise UsageError(f"seed cannot be {self.seed}", hint="it must be from 0 to 2^64 - 1")
        if self.logit_bias != ():
            object.__setattr__(self, "logit_bias", frozen_bias(self.logit_bias))

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
        several = len(self.logit_bias)
        biased = [f"logit bias of {several} token{'' if several == 1 else 's'}"] if several else []
        seed = [] if self.greedy else [f"seed {self.seed}"]
        return ", ".join([self.in_words(), *biased, *seed])
