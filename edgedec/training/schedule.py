"""The plan of a training run: when it ends, and the learning rate until then."""

from __future__ import annotations

import math

from edgedec.core.quick_dataclass import dataclass

_WARM = 0.03
"""Share of a plan in which the rate rises."""
_FLOOR = 0.05
"""Share of the highest rate that the last steps have."""


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """Steps from ``first`` on, until as many have run, or as many seconds have passed.

    A later run makes a new plan, which begins where this one ends. Exactly one of the two limits is set.
    """

    first: int
    steps: int | None
    seconds: float | None

    def progress(self, step: int, seconds: float) -> float:
        """Return the share that is done before ``step``, ``seconds`` after the plan's begin; at most 1."""
        done = (step - self.first) / self.steps if self.steps else 1.0
        if self.seconds is not None:
            done = seconds / max(self.seconds, 1e-9)
        return min(max(done, 0.0), 1.0)


def rate(peak: float, progress: float) -> float:
    """Return the learning rate: a linear rise to ``peak``, then a cosine down to a twentieth of it."""
    if progress < _WARM:
        return peak * max(progress / _WARM, _FLOOR)
    fallen = (progress - _WARM) / (1 - _WARM)
    return peak * (_FLOOR + (1 - _FLOOR) * 0.5 * (1 + math.cos(math.pi * fallen)))
