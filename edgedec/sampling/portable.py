"""``exp`` and ``log`` in float64 built from IEEE operations alone.

NumPy's own versions differ in the last bit between processors (vector libraries against libm), and one
such bit could change a drawn token. Additions, products and quotients round alike everywhere, so these
agree everywhere, and so do ``exp_one`` and ``log_one``: they are the same operations in the same order on a
Python number, for draws that look at so few that NumPy's calls would cost more than the arithmetic. For the
same reason constants of the arrays are 0-d arrays and work is done in place.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

_LN2 = math.log(2.0)
_PER_LN2 = 1.0 / math.log(2.0)
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # 32 leading bits: exact times |k| < 2^20
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")  # ln 2 - _LN2_HIGH
_SQRT_HALF = math.sqrt(0.5)
_EXP_FLOOR, _EXP_CEILING = -700.0, 700.0
_EXP_TERMS = tuple(1.0 / math.factorial(n) for n in range(13, -1, -1))
_ATANH_TERMS = tuple(2.0 / (2 * n + 1) for n in range(10, -1, -1))


def _constant(value: float) -> F64:
    return np.array(value, dtype=np.float64)


class _Arrays:
    """The same constants, for NumPy."""

    LN2 = _constant(_LN2)
    PER_LN2 = _constant(_PER_LN2)
    LN2_HIGH = _constant(_LN2_HIGH)
    LN2_LOW = _constant(_LN2_LOW)
    SQRT_HALF = _constant(_SQRT_HALF)
    ONE = _constant(1.0)
    EXP_FLOOR = _constant(_EXP_FLOOR)
    EXP_TERMS = tuple(map(_constant, _EXP_TERMS))
    ATANH_TERMS = tuple(map(_constant, _ATANH_TERMS))


def exp(x: F64) -> F64:
    """e^x to about 1e-15 relative, for x <= 700; below -700 it stays at e^-700, so it is never 0."""
    clipped = np.maximum(x, _Arrays.EXP_FLOOR)
    k = clipped * _Arrays.PER_LN2
    np.rint(k, k)
    clipped -= k * _Arrays.LN2_HIGH
    clipped -= k * _Arrays.LN2_LOW
    return np.ldexp(_horner(_Arrays.EXP_TERMS, clipped), k.astype(np.int32))


def exp_one(x: float) -> float:
    """``exp`` of one number."""
    if not x <= _EXP_CEILING:  # nor a number, perhaps: outside what is promised, but alike there too
        return float(exp(np.array([x]))[0])
    if x < _EXP_FLOOR:
        x = _EXP_FLOOR
    k = round(x * _PER_LN2)  # half to even, like rint
    x -= k * _LN2_HIGH
    x -= k * _LN2_LOW
    return math.ldexp(_horner_one(_EXP_TERMS, x), k)


def log(x: F64) -> F64:
    """Natural logarithm of positive normal numbers, to about 1e-15 (absolute near 1, else relative)."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < _Arrays.SQRT_HALF
    mantissa += mantissa * low
    s = mantissa - _Arrays.ONE
    mantissa += _Arrays.ONE
    s /= mantissa
    result = _horner(_Arrays.ATANH_TERMS, s * s)
    result *= s
    result += (exponent - low) * _Arrays.LN2
    return result


def log_one(x: float) -> float:
    """``log`` of one number."""
    mantissa, exponent = math.frexp(x)
    if mantissa < _SQRT_HALF:
        mantissa += mantissa
        exponent -= 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    return _horner_one(_ATANH_TERMS, s * s) * s + exponent * _LN2


def _horner(terms: tuple[F64, ...], x: F64) -> F64:
    result = x * terms[0]
    for term in terms[1:-1]:
        result += term
        result *= x
    result += terms[-1]
    return result


def _horner_one(terms: tuple[float, ...], x: float) -> float:
    result = 0.0
    for term in terms:
        result = result * x + term
    return result
