"""Arithmetic of float32 by fractions: what a device must return, and which cases are special."""

from __future__ import annotations

import struct
from fractions import Fraction
from math import isqrt

NAN, INFINITY, MINUS = 0x7FC00000, 0x7F800000, 0x80000000
SIZE = 0x7FFFFFFF
LEAST_NORMAL = Fraction(1, 1 << 126)
NORMAL, NOT_FINITE, SUBNORMAL = 0, 1, 2


def bits(value: float) -> int:
    """The bits of a float32."""
    (found,) = struct.unpack("<I", struct.pack("<f", value))
    return int(found)


def fraction(word: int) -> Fraction:
    """The value of a finite number."""
    exponent, rest = word >> 23 & 255, word & 0x7FFFFF
    value = Fraction(rest | 0x800000 if exponent else rest) * Fraction(2) ** (max(exponent, 1) - 150)
    return -value if word & MINUS else value


def rounded(value: Fraction, zero: int = 0) -> int:
    """The float32 nearest to ``value``, half to even; ``zero`` is the result for zero."""
    if value == 0:
        return zero
    sign, size = (MINUS if value < 0 else 0), abs(value)
    power = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** power:
        power -= 1
    unit = Fraction(2) ** (max(power, -126) - 23)
    count = round(size / unit)
    found = count + ((max(power, -126) + 126) << 23)
    return sign | min(found, INFINITY)


class Exact:
    """Operations on bits; ``kind`` is the greatest kind of their operands and results."""

    def __init__(self) -> None:
        self.kind = NORMAL

    def fma(self, a: int, b: int, c: int) -> int:
        self._see(a, b, c)
        minus = (a ^ b) & MINUS
        x, y, z = a & SIZE, b & SIZE, c & SIZE
        if max(x, y, z) >= INFINITY:
            infinite = INFINITY in (x, y)
            wrong = max(x, y, z) > INFINITY or (
                infinite and (0 in (x, y) or (z == INFINITY and c != minus | z))
            )
            return NAN if wrong else minus | INFINITY if infinite else c
        product = fraction(a) * fraction(b)
        zero = (c & minus & MINUS) if product == 0 and z == 0 else 0
        if product != 0 and product + fraction(c) == 0:
            zero = 0
        return self._round(product + fraction(c), zero)

    def mul(self, a: int, b: int) -> int:
        return self.fma(a, b, MINUS)

    def add(self, a: int, b: int) -> int:
        return self.fma(a, bits(1.0), b)

    def sub(self, a: int, b: int) -> int:
        return self.add(a, b ^ MINUS)

    def div(self, a: int, b: int) -> int:
        self._see(a, b)
        minus = (a ^ b) & MINUS
        x, y = a & SIZE, b & SIZE
        if max(x, y) > INFINITY or x == y == INFINITY or x == y == 0:
            self.kind = max(self.kind, NOT_FINITE)
            return NAN
        if y == 0 or x == INFINITY:
            self.kind = max(self.kind, NOT_FINITE)
            return minus | INFINITY
        return minus if y == INFINITY else self._round(fraction(a) / fraction(b), minus)

    def sqrt(self, a: int) -> int:
        self._see(a)
        if a & SIZE == 0 or a == INFINITY:
            return a
        if a > INFINITY:
            self.kind = max(self.kind, NOT_FINITE)
            return NAN
        value = fraction(a) * (1 << 200)  # an integer, times an even power of two
        root = isqrt(value.numerator)
        sticky = Fraction(1, 2) if root * root != value else Fraction(0)
        return self._round((root + sticky) / (1 << 100), 0)

    def maximum(self, a: int, b: int) -> int:
        self._see(a, b)
        return a if self._less(b, a) else b

    def minimum(self, a: int, b: int) -> int:
        self._see(a, b)
        return a if self._less(a, b) else b

    def round_even(self, a: int) -> int:
        self._see(a)
        return (
            a if a & SIZE >= bits(8388608.0) else rounded(Fraction(round(fraction(a))), 0) & SIZE | a & MINUS
        )

    def exp(self, value: int) -> int:
        """``ed_exp``, step by step."""
        x = self.minimum(bits(89.0), self.maximum(bits(-105.0), value))
        magic = bits(12582912.0)
        shifted = self.fma(x, _hex("0x1.715476p+0"), magic)
        n = self.sub(shifted, magic)
        r = self.fma(n, _hex("0x1.05c61p-29"), self.fma(n, _hex("-0x1.62e43p-1"), x))
        q = _hex("0x1.6a23dp-10")
        for part in ("0x1.123a2p-7", "0x1.5558f2p-5", "0x1.555492p-3", "0x1.fffffcp-2"):
            q = self.fma(q, r, _hex(part))
        p = self.add(self.fma(self.mul(r, r), q, r), bits(1.0))
        if p & SIZE > INFINITY:
            return NAN
        power = shifted - magic
        half = power >> 1
        return self.mul(self.mul(p, half + 127 << 23), power - half + 127 << 23)

    def silu(self, x: int) -> int:
        return self.div(x, self.add(bits(1.0), self.exp(self.sub(0, x))))

    def softcap(self, x: int, cap: int) -> int:
        ratio = self.div(x, cap)
        rest = self.div(bits(2.0), self.add(bits(1.0), self.exp(self.add(ratio, ratio))))
        return self.mul(cap, self.sub(bits(1.0), rest))

    def _less(self, a: int, b: int) -> bool:
        if max(a & SIZE, b & SIZE) > INFINITY:
            return False
        return _order(a) < _order(b)

    def _see(self, *operands: int) -> None:
        for one in operands:
            size = one & SIZE
            tiny = 0 < size < 0x800000
            self.kind = max(self.kind, SUBNORMAL if tiny else NOT_FINITE if size >= INFINITY else NORMAL)

    def _round(self, value: Fraction, zero: int) -> int:
        found = rounded(value, zero)
        self._see(found)
        if 0 < abs(value) < LEAST_NORMAL:
            self.kind = max(self.kind, SUBNORMAL)
        return found


def _order(word: int) -> int:
    return -(word & SIZE) if word & MINUS else word


def _hex(text: str) -> int:
    return bits(float.fromhex(text))
