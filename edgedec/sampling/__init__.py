"""Turning head results into tokens: warping, position-keyed noise and the draw itself, all pure functions."""

from __future__ import annotations

from edgedec.sampling.draw import distribution, draw
from edgedec.sampling.history import DrawHistory
from edgedec.sampling.masked import Allowed
from edgedec.sampling.mirostat import bound_after
from edgedec.sampling.needs import MOST_DRAWING, drawing_bytes, head_temperature, needs_logits
from edgedec.sampling.occurred import Occurred
from edgedec.sampling.params import DrawParams

__all__ = [
    "MOST_DRAWING",
    "Allowed",
    "DrawHistory",
    "DrawParams",
    "Occurred",
    "bound_after",
    "distribution",
    "draw",
    "drawing_bytes",
    "head_temperature",
    "needs_logits",
]  # fmt: skip
