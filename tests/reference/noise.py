"""Position-keyed noise, and ``exp`` and ``log`` of IEEE operations alone: oracles of the core's."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
U64 = NDArray[np.uint64]
Ids = NDArray[np.integer]

LN2 = math.log(2.0)
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # 32 leading bits: exact times |k| < 2^20
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")  # ln 2 - _LN2_HIGH
_EXP_TERMS = tuple(1.0 / math.factorial(n) for n in range(13, -1, -1))
_ATANH_TERMS = tuple(2.0 / (2 * n + 1) for n in range(10, -1, -1))
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_STAFFORD = (30, 0xBF58476D1CE4E5B9, 27, 0x94D049BB133111EB, 31)
_MURMUR = (33, 0xFF51AFD7ED558CCD, 33, 0xC4CEB9FE1A85EC53, 33)


def exp(x: F64) -> F64:
    """e^x to about 1e-15 relative, for x <= 700; below -700 it stays at e^-700, so it is never 0."""
    clipped = np.maximum(x, -700.0)
    k = np.rint(clipped * (1.0 / LN2))
    clipped -= k * _LN2_HIGH
    clipped -= k * _LN2_LOW
    return np.ldexp(_horner(_EXP_TERMS, clipped), k.astype(np.int32))


def exp_one(x: float) -> float:
    """``exp`` of one number."""
    return float(exp(np.array([x]))[0])


def log(x: F64) -> F64:
    """Natural logarithm of positive normal numbers, to about 1e-15 (absolute near 1, else relative)."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < math.sqrt(0.5)
    mantissa = mantissa + mantissa * low
    s = (mantissa - 1.0) / (mantissa + 1.0)
    return _horner(_ATANH_TERMS, s * s) * s + (exponent - low) * LN2


def log_one(x: float) -> float:
    """``log`` of one number."""
    return float(log(np.array([x]))[0])


def gumbel(seed: int, position: int, ids: Ids) -> F64:
    """Standard Gumbel noise f64, one value per id in ``ids``; seed in [0, 2^64), position >= 0."""
    return -log(exponential(seed, position, ids))


def exponential(seed: int, position: int, ids: Ids) -> F64:
    """Standard exponential noise f64, one value per id."""
    return -log(uniform(seed, position, ids))


def uniform(seed: int, position: int, ids: Ids) -> F64:
    """Uniform f64 in the open interval (0, 1), one value per id."""
    return ((bits(seed, position, ids) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def bits(seed: int, position: int, ids: Ids) -> U64:
    """64 well mixed bits for each id."""
    base = _mix((seed + _GOLDEN) & _MASK, _STAFFORD)
    first = _mix((base + (position + 1) * _GOLDEN) & _MASK, _STAFFORD)
    second = _mix(~first & _MASK, _STAFFORD)
    counter = ids.astype(np.uint64) * np.uint64(_GOLDEN) + np.uint64(first)
    return _mix_all(_mix_all(counter, _STAFFORD) ^ np.uint64(second), _MURMUR)


def _mix_all(x: U64, constants: tuple[int, int, int, int, int]) -> U64:
    a, first, b, second, c = map(np.uint64, constants)
    x = (x ^ (x >> a)) * first
    x = (x ^ (x >> b)) * second
    return x ^ (x >> c)


def _mix(x: int, constants: tuple[int, int, int, int, int]) -> int:
    a, first, b, second, c = constants
    x = ((x ^ (x >> a)) * first) & _MASK
    x = ((x ^ (x >> b)) * second) & _MASK
    return x ^ (x >> c)


def _horner(terms: tuple[float, ...], x: F64) -> F64:
    result = x * terms[0]
    for term in terms[1:-1]:
        result = (result + term) * x
    return result + terms[-1]
