"""YaRN: rotary positions whose slow pairs turn slower than in training, and whose fast ones do not."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.architectures.base import Architecture
from edgedec.export.metadata_keys import MetadataKeys

_LEAST_RAMP = 0.001


@dataclass(frozen=True, slots=True)
class Yarn:
    """The parameters of YaRN, named as in the metadata of a GGUF file."""

    factor: float
    """Divisor of the frequencies of slow pairs."""
    original: int
    """Context of the training, in tokens."""
    beta_fast: float
    """Turns within ``original`` from which on a pair is fast; ``beta_slow``: up to which it is slow."""
    beta_slow: float
    attention: float
    """Factor on sines and cosines."""
    whole_pairs: bool
    """Whether the ramp from fast to slow begins and ends at a pair, and not between two."""

    def divisors(self, base: float, rotary_dim: int) -> NDArray[np.float32]:
        """Return the divisors f32[d/2] of the frequencies (transformers' ``_compute_yarn_parameters``)."""
        low, high = (self._pair(turns, base, rotary_dim) for turns in (self.beta_fast, self.beta_slow))
        if self.whole_pairs:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, rotary_dim - 1)
        ramp = np.clip((np.arange(rotary_dim // 2) - low) / max(high - low, _LEAST_RAMP), 0.0, 1.0)
        divisors: NDArray[np.float32] = (1.0 / (ramp / self.factor + (1.0 - ramp))).astype(np.float32)
        return divisors

    def _pair(self, turns: float, base: float, rotary_dim: int) -> float:
        """Return the pair, as a fraction, that makes so many turns within the original context."""
        return rotary_dim * math.log(self.original / (turns * 2 * math.pi)) / (2 * math.log(base))


def read_yarn(keys: MetadataKeys, architecture: Architecture) -> Yarn | None:
    """Read YaRN's parameters; None without it. Raises BadFileError for impossible ones."""
    if not architecture.yarn or keys.get("rope.scaling.type") != "yarn":
        return None
    factor, fast, slow = (
        keys.number("rope.scaling.factor"),
        keys.number("rope.scaling.yarn_beta_fast", 32.0),
        keys.number("rope.scaling.yarn_beta_slow", 1.0),
    )
    if not (factor >= 1 and fast >= slow > 0 and keys.number("rope.freq_base", 10000.0) > 1):
        raise BadFileError("the model's YaRN parameters contradict each other")
    strength = keys.number("rope.scaling.yarn_log_multiplier", 0.0)
    return Yarn(
        factor=factor,
        original=keys.size("rope.scaling.original_context_length"),
        beta_fast=fast,
        beta_slow=slow,
        attention=_growth(factor, 1.0) / (_growth(factor, strength) if strength else 1.0),
        whole_pairs=architecture.yarn_whole_pairs,
    )


def _growth(factor: float, strength: float) -> float:
    return 0.1 * strength * math.log(factor) + 1.0
