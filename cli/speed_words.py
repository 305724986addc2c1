"""Predicted speeds in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgedec.costs.speeds import PredictedSpeeds


def spoken(speed: PredictedSpeeds) -> str:
    """Say what to expect: ``about 250 tok/s, with drafts up to 810``."""
    plain = f"about {_short(speed.plain)} tok/s"
    return plain if speed.most <= speed.plain else f"{plain}, with drafts up to {_short(speed.most)}"


def _short(rate: float) -> str:
    return f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}"
