"""The thinking part of a reply, as far as it has come."""

from __future__ import annotations

from edgedec.core.quick_dataclass import dataclass


@dataclass(frozen=True)
class Thought:
    """Text, and the seconds and tokens that it took."""

    text: str = ""
    seconds: float = 0.0
    tokens: int = 0
