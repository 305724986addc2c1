"""Put the source of a shader together: constants, the prelude, a kernel.

``kernels/wgsl/pass.wgsl`` says what the prelude holds.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from edgedec import kernels

PRIMITIVES = ("fma", "basic", "divide", "root", "dot")
"""Operations that a device may compute natively; each has a file for both cases."""
NATIVE, EXACT = "native", "exact"

_WITH = re.compile(r"^// with (\S+)$", re.MULTILINE)

Const = int | float | bool


def source(kernel: str, consts: Mapping[str, Const], variants: Mapping[str, str]) -> str:
    """Return the source of ``kernel``, its file without suffix below ``kernels/``."""
    lines = [constant(name, value) for name, value in consts.items()]
    return "\n".join([*lines, *(text(name) for name in (*prelude(variants), *parts(kernel)))])


def prelude(variants: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files before a kernel's, in order.

    ``variants``: ``native`` or ``exact`` of each primitive.
    """
    chosen = (f"wgsl/{name}_{variants[name]}" for name in PRIMITIVES)
    return ("wgsl/pass", "wgsl/bits", *chosen, "wgsl/numbers", "wgsl/halves", "wgsl/math")


def parts(kernel: str) -> tuple[str, ...]:
    """Return the files that a kernel needs before it, as its first lines name them, and its own."""
    return (*_WITH.findall(text(kernel)), kernel)


def constant(name: str, value: Const) -> str:
    """Return one line of WGSL. A finite float is rounded to float32, and written exactly."""
    if isinstance(value, bool):
        return f"const {name}: bool = {str(value).lower()};"
    if isinstance(value, int):
        return f"const {name}: u32 = {value}u;"
    (rounded,) = struct.unpack("<f", struct.pack("<f", value))
    return f"const {name}: f32 = {rounded.hex()}f;"


@cache
def text(name: str) -> str:
    """Return the text of a file below ``kernels/``, named without its suffix."""
    return (Path(str(kernels.__file__)).parent / f"{name}.wgsl").read_text(encoding="utf-8")
