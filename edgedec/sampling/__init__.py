"""Turning head results into tokens: warping, position-keyed noise and the draw itself, all pure functions."""

from __future__ import annotations

from edgedec.sampling.draw import draw, needs_logits
from edgedec.sampling.params import SamplingParams

__all__ = ["SamplingParams", "draw", "needs_logits"]
