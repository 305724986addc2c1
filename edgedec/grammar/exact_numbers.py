"""Numbers of a JSON schema that llguidance keeps exactly.

It reads every number as a float64 and writes bounds of integers as int64, of other numbers as the shortest
digits that name the float64. A bound is therefore moved inwards to a number that both forms spell within it.
"""

from __future__ import annotations

import math
from decimal import Decimal

MOST = 2**63 - 1024
"""The largest integer of 64 bits that is a float64. Numbers from -MOST to MOST can be kept to."""
_INTEGERS = 2.0**53
"""Up to here every integer is a float64."""

Number = int | float


def lower_bound(value: Number, *, exclusive: bool = False) -> Number | None:
    """Return the bound to state for numbers of at least ``value``, or above it; None where none can be kept.

    >>> lower_bound(5), lower_bound(2**60 + 1), lower_bound(-1e30), lower_bound(1e30)
    (5, 1152921504606847232, -9223372036854774784, None)
    """
    if abs(value) < _INTEGERS:
        return value
    if value > MOST:
        return None
    found = float(max(value, -MOST))
    while (least := min(Decimal(int(found)), Decimal(repr(found)))) < value or (exclusive and least == value):
        found = math.nextafter(found, math.inf)
    return int(found) if found <= MOST else None


def upper_bound(value: Number, *, exclusive: bool = False) -> Number | None:
    """Return the bound to state for numbers of at most ``value``, or below it; see ``lower_bound``."""
    found = lower_bound(-value, exclusive=exclusive)
    return None if found is None else -found


def is_exact(value: Number) -> bool:
    """Whether llguidance writes the number itself, where it must be this one.

    >>> is_exact(2**53 + 1), is_exact(2**53 + 2), is_exact(0.1)
    (False, True, True)
    """
    if abs(value) < _INTEGERS:
        return True
    if abs(value) > MOST:
        return False
    return int(float(value)) == value and (isinstance(value, int) or Decimal(repr(value)) == int(value))
