"""Settings of a training run."""

from __future__ import annotations

from edgedec.core.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TrainingRecipe:
    """Settings of training that a checkpoint cannot change."""

    peak_rate: float = 1e-3
    batch_tokens: int = 1024
    depths: int = 4
    """Draft steps that each row is unrolled over."""
    decay: float = 0.8
    """Weight of the loss at each depth, relative to the one before."""
    clip: float = 1.0
    """Largest norm of the gradient."""
    weight_decay: float = 0.01
    seed: int = 0
