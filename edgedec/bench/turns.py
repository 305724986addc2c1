"""Taking turns: machines get warm and have other things to do, so sides are measured side by side in time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

SETTLE_S = 0.05
"""Pause before a side's turn, in which the other's threads stop spinning."""


def settle() -> None:
    """Wait until the threads of the side before sleep."""
    time.sleep(SETTLE_S)


def turns(sides: Sequence[T], turn: int) -> list[T]:
    """The sides in the order of one turn: the first one moves on by one each time."""
    start = turn % len(sides)
    return [*sides[start:], *sides[:start]]
