"""Cases of kernels: operands, a grid, and the bytes that must come out. The runner here is over ``wgpu``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from edgedec.backends.gpu import shaders
from edgedec.backends.gpu.arithmetic import Arithmetic, probe
from edgedec.backends.gpu.device import Dispatch, GpuDevice, Slice

Array = npt.NDArray[Any]
PASS = np.dtype(
    [(name, np.uint32) for name in ("tokens", "length", "rows", "zero")]
    + [("inverse", np.float32)]
    + [(name, np.uint32) for name in ("first", "kept", "behind")]
)


@dataclass(frozen=True)
class KernelCase:
    """One dispatch. ``inputs`` are the buffers of bindings 1 and on; those in ``expected`` are compared.

    Floats are equal when they have the same bits or both are NaN; other numbers when their bits are.
    """

    kernel: str
    consts: Mapping[str, shaders.Const]
    inputs: tuple[Array, ...]
    expected: Mapping[int, Array]
    """By binding. The buffer begins as ``inputs`` has it; an output may be ``empty``."""
    grid: tuple[int, int, int] = (1, 1, 1)
    facts: Mapping[str, float] = field(default_factory=dict)
    """Members of ``Pass``: tokens, length, rows, inverse, ..."""

    subnormals: bool = False
    """Whether numbers below 2^-126 occur: some devices make them zero unless they compute in integers."""

    def uniform(self) -> bytes:
        words = np.zeros(1, PASS)
        for name, value in self.facts.items():
            words[name] = value
        return words.tobytes()


@dataclass(frozen=True)
class Difference:
    """A word that came out wrong."""

    case: int
    binding: int
    word: int
    got: str
    expected: str


def empty(count: int) -> Array:
    """An output of ``count`` floats, filled with what no kernel writes."""
    return np.full(count, 0xABABABAB, np.uint32).view(np.float32)


@cache
def arithmetic(device: GpuDevice, subnormals: bool = False) -> Arithmetic:
    """Arithmetic of the device; asked once."""
    return probe(device, subnormals=subnormals)


def run(device: GpuDevice, case: KernelCase, variants: Mapping[str, str] | None = None) -> dict[int, bytes]:
    """The bytes of the buffers of ``case.expected`` after it ran.

    ``variants``: those of the prelude; the ones that suit the device where None are given.
    """
    text = shaders.source(case.kernel, case.consts, variants or arithmetic(device, case.subnormals).variants)
    kernel = device.kernel(case.kernel, text)
    uniform = device.uniform(PASS.itemsize)
    device.write(uniform, case.uniform())
    parts = []
    for array in case.inputs:
        data = np.ascontiguousarray(array)
        parts.append(Slice(device.buffer(max(data.nbytes, 4)), 0, max(data.nbytes, 4)))
        device.write(parts[-1].buffer, data)
    group = device.bound(kernel, uniform, parts)
    wanted = sorted(case.expected)
    answers = device.run([Dispatch(kernel, group, case.grid)], [parts[binding - 1] for binding in wanted])
    for part in parts:
        part.buffer.destroy()
    uniform.destroy()
    return dict(zip(wanted, answers, strict=True))


def differences(device: GpuDevice, cases: Iterable[KernelCase]) -> Iterator[Difference]:
    """Differences of ``device`` from what is expected, one word of each buffer."""
    for number, case in enumerate(cases):
        for binding, data in run(device, case).items():
            yield from compared(number, binding, case.expected[binding], data)


def compared(number: int, binding: int, expected: Array, data: bytes) -> Iterator[Difference]:
    """The first word of ``data`` that differs, if one does."""
    got = np.frombuffer(data, expected.dtype)[: expected.size]
    want = np.ascontiguousarray(expected).reshape(-1)
    unit = f"u{expected.itemsize}"
    wrong = got.view(unit) != want.view(unit)
    if expected.dtype.kind == "f":
        wrong &= ~(np.isnan(got) & np.isnan(want))
    for at in np.flatnonzero(wrong)[:1].tolist():
        yield Difference(number, binding, at, f"{got[at]!r}, {int(wrong.sum())} wrong", repr(want[at]))
