"""Tokens that are drawn after some of the target's layers: the rest is left to passes to come."""

from __future__ import annotations

from dataclasses import dataclass

from edgedec.core.exits import Bypass


@dataclass(frozen=True, slots=True)
class EarlyWay:
    """The layers that a token is drawn after: the first ``exit``, and those behind ``bypass``, if any.

    ``step_bytes``: what a token reads.
    """

    exit: int
    bypass: Bypass | None
    step_bytes: float
