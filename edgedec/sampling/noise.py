"""Position-keyed noise.

``exponential(seed, t, ids)`` is E(v) = -log U(seed, t, v) and ``gumbel`` is G(v) = -log E(v); both are pure
functions of their arguments. The token at position t is

    argmin over v of E(v) / p(v)   =   argmax over v of log p(v) + G(v),

which has exactly the distribution p (the "exponential race", or Gumbel-max trick; p need not be normalised)
and depends on p, the seed and the position alone: not on how many tokens were drawn before, nor on whether
the position was reached by speculation.

U comes from a counter-based generator: the 64-bit finaliser of SplitMix64 (Steele, Lea, Flood 2014, with the
constants of Stafford's variant 13) over a counter made from the id and a key made from seed and position,
then MurmurHash3's finaliser under a second key. The upper 52 bits, offset by one half, give U in
[2^-53, 1 - 2^-53].
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.sampling import portable

U64 = NDArray[np.uint64]
F64 = NDArray[np.float64]

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_STAFFORD = (30, 0xBF58476D1CE4E5B9, 27, 0x94D049BB133111EB, 31)
_MURMUR = (33, 0xFF51AFD7ED558CCD, 33, 0xC4CEB9FE1A85EC53, 33)

# 0-d arrays: NumPy takes them faster than Python numbers.
_GOLDEN_U64 = np.array(_GOLDEN, dtype=np.uint64)
_STAFFORD_U64 = [np.array(c, dtype=np.uint64) for c in _STAFFORD]
_MURMUR_U64 = [np.array(c, dtype=np.uint64) for c in _MURMUR]
_DROP = np.array(12, dtype=np.uint64)
_HALF = np.array(0.5)
_STEP = np.array(2.0**-52)
_BLOCK = 16384
"""Ids that ``above`` mixes at a time: their numbers stay in the second-level cache."""
_RAMP = np.arange(_BLOCK, dtype=np.uint64) * _GOLDEN_U64


def gumbel(seed: int, position: int, ids: NDArray[np.integer]) -> F64:
    """Standard Gumbel noise f64, one value per id in ``ids``; seed in [0, 2^64), position >= 0."""
    return -portable.log(exponential(seed, position, ids))


def exponential(seed: int, position: int, ids: NDArray[np.integer]) -> F64:
    """Standard exponential noise f64, one value per id."""
    return -portable.log(uniform(seed, position, ids))


def exponentials(seed: int, position: int, ids: Sequence[int]) -> list[float]:
    """The same noise as ``exponential``, id by id: sooner than through arrays for few ids."""
    first, second = _keys(seed, position)
    found = []
    for v in ids:
        mixed = _mix_int(_mix_int((first + v * _GOLDEN) & _MASK, _STAFFORD) ^ second, _MURMUR)
        found.append(-portable.log_one(((mixed >> 12) + 0.5) * 2.0**-52))
    return found


def uniform(seed: int, position: int, ids: NDArray[np.integer]) -> F64:
    """Uniform f64 in the open interval (0, 1), one value per id."""
    result = (bits(seed, position, ids) >> _DROP).astype(np.float64)
    result += _HALF
    result *= _STEP
    return result


def above(seed: int, position: int, count: int, floor: float) -> NDArray[np.int64]:
    """The ids below ``count`` whose ``uniform`` is greater than ``floor``, ascending; no floats are made."""
    least = max(0, math.floor(floor * 2.0**52 - 0.5) + 1)  # of the upper 52 bits
    if least >= 1 << 52:
        return np.empty(0, dtype=np.int64)
    first, second = _keys(seed, position)
    bound = np.array(least << 12, dtype=np.uint64)
    counters, spare = np.empty_like(_RAMP), np.empty_like(_RAMP)
    found = []
    for start in range(0, count, _BLOCK):
        size = min(_BLOCK, count - start)
        begin = np.array((first + start * _GOLDEN) & _MASK, dtype=np.uint64)
        x = np.add(_RAMP[:size], begin, out=counters[:size])
        _mix_both(x, second, spare[:size])
        found.append(np.flatnonzero(x >= bound) + start)
    return np.concatenate(found)


def bits(seed: int, position: int, ids: NDArray[np.integer]) -> U64:
    """64 well mixed bits for each id."""
    first, second = _keys(seed, position)
    counter = ids.astype(np.uint64)
    counter *= _GOLDEN_U64  # wraps modulo 2^64, as everywhere below
    counter += np.array(first, dtype=np.uint64)
    _mix_both(counter, second, np.empty_like(counter))
    return counter


def _mix_both(x: U64, key: int, spare: U64) -> None:
    _mix(x, _STAFFORD_U64, spare)
    x ^= np.array(key, dtype=np.uint64)
    _mix(x, _MURMUR_U64, spare)


def _mix(x: U64, constants: list[U64], spare: U64) -> None:
    a, first, b, second, c = constants
    x ^= np.right_shift(x, a, out=spare)
    x *= first
    x ^= np.right_shift(x, b, out=spare)
    x *= second
    x ^= np.right_shift(x, c, out=spare)


def _keys(seed: int, position: int) -> tuple[int, int]:
    base = _mix_int((seed + _GOLDEN) & _MASK, _STAFFORD)
    first = _mix_int((base + (position + 1) * _GOLDEN) & _MASK, _STAFFORD)
    # Not derived from first + n * _GOLDEN: that is the counter of id n, whose hash it would cancel.
    return first, _mix_int(~first & _MASK, _STAFFORD)


def _mix_int(x: int, constants: tuple[int, int, int, int, int]) -> int:
    a, first, b, second, c = constants
    x = ((x ^ (x >> a)) * first) & _MASK
    x = ((x ^ (x >> b)) * second) & _MASK
    return x ^ (x >> c)
