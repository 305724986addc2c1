"""Names of the ways to go on when the context is full."""

from __future__ import annotations

from typing import Literal

WhenFull = Literal["drop", "stop", "slide", "speckv"]
DROP: WhenFull = "drop"
"""The oldest turns leave the conversation; those that stay are fed again."""
STOP: WhenFull = "stop"
"""The reply ends, or the turn is refused."""
SLIDE: WhenFull = "slide"
"""Lossy: the oldest tokens leave the KV cache, see ``eviction.sliding``."""
SPECKV: WhenFull = "speckv"
"""Lossy: the tokens that are attended to least leave the KV cache, see ``eviction.speckv``."""
LOSSY: tuple[WhenFull, ...] = (SLIDE, SPECKV)
WHEN_FULL: tuple[WhenFull, ...] = (DROP, STOP, *LOSSY)
