"""Attention over int8 keys and values in NumPy, bit by bit: integers, and float32 steps in their order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tests.kernels.float_rows import F32, call

F64 = npt.NDArray[np.float64]
F16 = npt.NDArray[np.float16]
I64 = npt.NDArray[np.int64]

KEY_GROUP, VALUE_GROUP, BLOCK = 32, 64, 64
_LEAST = np.float32(2.0**-100)


def fused(a: F32, b: F32, c: F32) -> F32:
    """Return a b + c, rounded once: a sum in float64 that is rounded to odd may be rounded again."""
    product, more = a.astype(np.float64) * b.astype(np.float64), np.asarray(c, np.float64)
    total = product + more
    back = total - product
    error = (product - (total - back)) + (more - back)
    even = (total.view(np.int64) & 1) == 0
    odd = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where((error != 0) & np.isfinite(error) & even, odd, total).astype(np.float32)


def mixed(x: F32, *, query: bool) -> F32:
    """Mix elements [..., dim]; mixed twice, once as a query, they are what they were."""
    out = x.copy()
    for first in range(0, x.shape[-1], KEY_GROUP):
        part = out[..., first : first + KEY_GROUP]
        count = half = part.shape[-1]
        while half := half // 2:
            pairs = part.reshape(*part.shape[:-1], count // (2 * half), 2, half)
            a, b = pairs[..., 0, :].copy(), pairs[..., 1, :].copy()
            part = np.stack([a + b, a - b], axis=-2).reshape(part.shape)
        factor = np.float32(0.125 if query and count == KEY_GROUP else 0.25)
        out[..., first : first + KEY_GROUP] = part * factor
    return out


def _groups(x: F32, group: int) -> list[F32]:
    return [x[..., first : first + group] for first in range(0, x.shape[-1], group)]


def quantised(x: F32, group: int) -> F16:
    """Rows of int8 for keys, or values, x[..., dim] with a scale for each ``group``."""
    with np.errstate(all="ignore"):
        parts = [_rounded(part) for part in _groups(mixed(x, query=False), group)]
    whole = np.concatenate([part for part, _ in parts], axis=-1)
    scales = np.zeros((*x.shape[:-1], -(-x.shape[-1] // KEY_GROUP)), np.float16)
    scales[..., : len(parts)] = np.concatenate([scale for _, scale in parts], axis=-1)
    return np.concatenate([whole.view(np.uint8), scales.view(np.uint8)], axis=-1).view(np.float16)


def _rounded(x: F32) -> tuple[npt.NDArray[np.int8], F16]:
    """A group in int8, and its scale: the least fp16 number by which 127 reach the greatest element."""
    most = np.abs(x).max(axis=-1, keepdims=True)
    scale = (most / np.float32(127)).astype(np.float16)
    short = scale.astype(np.float32) * np.float32(127) < most
    scale = np.where(short, np.nextafter(scale, np.float16(np.inf)), scale)
    scale = np.where(most < 2.0**-26, np.float16(0), scale)
    lost = ~np.isfinite(x).all(axis=-1, keepdims=True) | ~np.isfinite(scale)
    scale = np.where(lost, np.float16(np.nan), scale)
    whole = np.where(lost | (scale == 0), 0, np.rint(x / scale.astype(np.float32)))
    assert np.abs(whole).max(initial=0) <= 127
    return whole.astype(np.int8), scale


def parts_of(rows: F16, dim: int) -> tuple[I64, F32]:
    """The integers [..., dim] and scales of rows of a cache."""
    return (
        np.ascontiguousarray(rows).view(np.int8)[..., :dim].astype(np.int64),
        rows[..., dim // 2 :].astype(np.float32),
    )


def widened(rows: F16, dim: int, group: int) -> F64:
    """What rows [..., row] of keys, or values, mean: [..., dim], no longer mixed."""
    whole, scales = parts_of(rows, dim)
    wide = whole * np.repeat(scales.astype(np.float64), group, axis=-1)[..., :dim]
    return mixed(wide, query=True)


def _sums(lanes: F32) -> np.float32:
    """Fold sixteen lanes: 16 -> 8 -> 4 -> 2 -> 1."""
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    return np.float32(lanes[0])


def _inverse_rms(x: F32) -> np.float32:
    """1 / sqrt(mean(x^2) + 1e-6) of a head."""
    lanes = np.zeros(16, np.float32)
    for part in x.reshape(-1, 16):
        lanes = fused(part, part, lanes)
    mean = _sums(lanes) / np.float32(len(x))
    return np.float32(1) / np.sqrt(mean + np.float32(1e-6))


def turned(x: F32, rotary: F32, weight: F32 | None, scale: float, interleaved: bool) -> F32:
    """A head through norm and rotation."""
    half = len(x) // 2
    if weight is not None:
        x = x * _inverse_rms(x) * weight
    first, second = (
        (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(half), slice(half, None))
    )
    a, b, cosine, sine = x[first], x[second], rotary[:half], rotary[half:]
    out = np.empty_like(x)
    out[first] = (a * cosine - b * sine) * np.float32(scale)
    out[second] = (a * sine + b * cosine) * np.float32(scale)
    return out


def normed_value(x: F32) -> F32:
    """A value through its norm, which has no weight."""
    return x * _inverse_rms(x)


def rounded_query(x: F32) -> list[tuple[I64, np.float32]]:
    """The groups of a turned query: integers, and what 1 stands for."""
    found = list[tuple[I64, np.float32]]()
    for part in _groups(mixed(x, query=True), KEY_GROUP):
        scale = (
            np.float32(np.abs(part).max() / np.float32(127))
            if np.isfinite(part).all()
            else np.float32(np.nan)
        )
        if scale < np.finfo(np.float32).tiny:
            scale = np.float32(0)
        none = scale == 0 or np.isnan(scale)
        found.append(
            (np.zeros(len(part), np.int64) if none else np.rint(part / scale).astype(np.int64), scale)
        )
    return found


def scores(query: Sequence[tuple[I64, np.float32]], keys: F16, dim: int) -> F32:
    """Scores of a query over rows of keys."""
    whole, scales = parts_of(keys, dim)
    total = np.zeros(len(keys), np.float32)
    for at, (group, scale) in enumerate(query):
        exact = whole[:, at * KEY_GROUP : (at + 1) * KEY_GROUP] @ group
        total = fused(exact.astype(np.float32), scales[:, at] * scale, total)
    return total


def _mapped(function: bytes, x: F32) -> F32:
    """Call a function of the scalar row, which has tests of its own."""
    out = np.empty_like(x)
    assert call("edgedec_math_map", "scalar", function, x, out, len(x)) == 0
    return out


def exponentials(given: F32, softcap: float, sink: np.float32 | None) -> tuple[F32, np.float32]:
    """Weights before their division, and their sum: sixteen lanes, folded, and then the sink's."""
    if softcap:
        cap = np.float32(softcap)
        given = cap * _mapped(b"tanh", given / cap)
    top = given.max() if sink is None else np.maximum(given.max(), sink)
    found = _mapped(b"exp", given - top)
    lanes = np.zeros(16, np.float32)
    for part in np.pad(found, (0, -len(found) % 16)).reshape(-1, 16):
        lanes = lanes + part
    if sink is None:
        return found, _sums(lanes)
    return found, _sums(lanes) + _mapped(b"exp", np.array([sink - top], np.float32))[0]


def gathered(weights: F32, values: F16, first: int, dim: int) -> F32:
    """Sums of values by weights of path indices from ``first`` on, neither divided nor mixed back."""
    whole, scales = parts_of(values, dim)
    out = np.zeros(dim, np.float32)
    for begin in range(first // BLOCK * BLOCK, first + len(weights), BLOCK):
        block = slice(max(begin - first, 0), begin - first + BLOCK)
        for at, c in enumerate(range(0, dim, VALUE_GROUP)):
            rounded, factor = _rounded_weights(weights[block] * scales[block, at])
            exact = (rounded @ whole[block, c : c + VALUE_GROUP]).astype(np.float32)
            out[c : c + VALUE_GROUP] = fused(exact, factor, out[c : c + VALUE_GROUP])
    return out


def _rounded_weights(given: F32) -> tuple[I64, np.float32]:
    """Weights of a block in 7 bits, and what 1 stands for."""
    if np.isnan(given).any():
        return np.zeros(len(given), np.int64), np.float32(np.nan)
    most = given.max()
    if most < _LEAST:
        return np.zeros(len(given), np.int64), np.float32(0)
    return np.rint(given * (np.float32(127) / most)).astype(np.int64), most / np.float32(127)


def weighed(query: F32, keys: F16, softcap: float, sink: np.float32 | None) -> tuple[F32, np.float32]:
    """Weights of rows of keys for a turned query, before their division by their sum, and that."""
    with np.errstate(all="ignore"):
        return exponentials(scores(rounded_query(query), keys, len(query)), softcap, sink)


def attended(weights: F32, total: np.float32, values: F16, first: int, dim: int) -> F32:
    """A head's output by weights of rows of values whose path indices begin at ``first``."""
    with np.errstate(all="ignore"):
        return mixed(gathered(weights, values, first, dim) / total, query=True)
