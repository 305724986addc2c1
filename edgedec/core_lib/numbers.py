"""exp, log and noise of the core (kernels/core/sampling): the same bits on every processor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgedec.core_lib.library import function

Numbers = NDArray[np.float64]
_EXP, _LOG, _EXPONENTIAL = 0, 1, 3


def exp(x: Numbers) -> Numbers:
    """Return e^x of numbers that are 700 at most; below -700 it is e^-700."""
    return _called(_EXP, x)


def log(x: float) -> float:
    """Return the natural logarithm of a positive number."""
    return float(_called(_LOG, np.array([x]))[0])


def exponential(ids: Numbers, seed: int, position: int) -> Numbers:
    """Return the exponential noise of token ids at a position: that of draws with this seed."""
    return _called(_EXPONENTIAL, ids, seed, position)


def _called(which: int, x: Numbers, seed: int = 0, position: int = 0) -> Numbers:
    given = np.ascontiguousarray(x, np.float64)
    found = np.empty_like(given)
    function("numbers")(which, given.ctypes.data, given.size, seed, position, found.ctypes.data)
    return found
