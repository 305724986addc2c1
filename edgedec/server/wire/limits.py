"""Bounds of fields, and the stop strings."""

from __future__ import annotations

from typing import Any

from edgedec.server.wire.errors import invalid

MOST_TOP = 20
"""Alternatives beside each token."""
MOST_STOPS = 256
MOST_STOP_CHARS = 200


def stops_of(given: Any, where: str = "stop") -> tuple[str, ...]:
    """Return stop strings, given as one or as a list; empty ones stop nothing. Raises ApiError."""
    several = [given] if isinstance(given, str) else [] if given is None else given
    fits = isinstance(several, list) and all(isinstance(one, str) for one in several)
    if not fits or len(several) > MOST_STOPS or any(len(one) > MOST_STOP_CHARS for one in several):
        allowed = f"a text of at most {MOST_STOP_CHARS} characters, or a list of at most {MOST_STOPS}"
        raise invalid(f"{where} should be {allowed}", where)
    return tuple(filter(None, several))
