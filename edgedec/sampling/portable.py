"""``exp`` and ``log`` in float64 built from IEEE operations alone.

NumPy's own versions differ in the last bit between processors (vector libraries against libm), and one
such bit could change a drawn token. Additions, products and quotients round alike everywhere, so these
agree everywhere. Constants are 0-d arrays and work is done in place because a draw looks at some forty
numbers, where a NumPy call costs more than its arithmetic.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


def _constant(value: float) -> F64:
    return np.array(value, dtype=np.float64)


_LN2 = _constant(math.log(2.0))
_PER_LN2 = _constant(1.0 / math.log(2.0))
_LN2_HIGH = _constant(float.fromhex("0x1.62e42fee00000p-1"))  # 32 leading bits: exact times |k| < 2^20
_LN2_LOW = _constant(float.fromhex("0x1.a39ef35793c76p-33"))  # ln 2 - _LN2_HIGH
_SQRT_HALF = _constant(math.sqrt(0.5))
_ONE = _constant(1.0)
_EXP_FLOOR = _constant(-700.0)
_EXP_TERMS = [_constant(1.0 / math.factorial(n)) for n in range(13, -1, -1)]
_ATANH_TERMS = [_constant(2.0 / (2 * n + 1)) for n in range(10, -1, -1)]


def exp(x: F64) -> F64:
    """e^x to about 1e-15 relative, for x <= 700; below -700 it stays at e^-700, so it is never 0."""
    clipped = np.maximum(x, _EXP_FLOOR)
    k = clipped * _PER_LN2
    np.rint(k, k)
    clipped -= k * _LN2_HIGH
    clipped -= k * _LN2_LOW
    return np.ldexp(_horner(_EXP_TERMS, clipped), k.astype(np.int32))


def log(x: F64) -> F64:
    """Natural logarithm of positive normal numbers, to about 1e-15 (absolute near 1, else relative)."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < _SQRT_HALF
    mantissa += mantissa * low
    s = mantissa - _ONE
    mantissa += _ONE
    s /= mantissa
    result = _horner(_ATANH_TERMS, s * s)
    result *= s
    result += (exponent - low) * _LN2
    return result


def _horner(terms: list[F64], x: F64) -> F64:
    result = x * terms[0]
    for term in terms[1:-1]:
        result += term
        result *= x
    result += terms[-1]
    return result
