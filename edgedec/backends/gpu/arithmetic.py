"""Ask a GPU which float operations it computes right, and choose the variants of the prelude by its answer.

``kernels/wgsl/probe.json`` has operands and exact results; a page in a browser asks the same.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec import kernels
from edgedec.backends.gpu import shaders
from edgedec.backends.gpu.device import Dispatch, GpuDevice, Slice
from edgedec.core.errors import BackendError, DeviceLostError
from edgedec.core.quick_dataclass import dataclass

DATA = Path(str(kernels.__file__)).parent / "wgsl" / "probe.json"
_SUBNORMAL = ord("2")
_NAN = 0x7F800000
_BITS = ("dot", "float to half")
"""Results that are no floats: every bit of them counts."""

Words = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The answers of a GPU to the probe, and the variants that were chosen for it."""

    variants: Mapping[str, str]
    failed: tuple[str, ...] = ()
    """Results that are wrong all the same."""
    flushed: tuple[str, ...] = ()
    """Results that are wrong for numbers below 2^-126 alone, which become zero."""

    @property
    def exact(self) -> bool:
        """Whether results have the CPU's bits, but for numbers below 2^-126 in what ``flushed`` names."""
        return not self.failed

    def describe(self) -> str:
        """Say in one line what was found."""
        made = [name for name in shaders.PRIMITIVES if self.variants[name] == shaders.EXACT]
        computed = f"{', '.join(made)} computed in integers" if made else "all operations the device's own"
        tiny = "; numbers below 2^-126 become zero" if self.flushed else ""
        if self.failed:
            return f"not exact across devices: wrong {', '.join(self.failed)}; {computed}{tiny}"
        return f"exact: {computed}{tiny}"


@dataclass(frozen=True, slots=True)
class _Result:
    name: str
    primitive: str
    wrong: bool
    flushed: bool


def probe(device: GpuDevice, *, subnormals: bool = False) -> Arithmetic:
    """Choose the native variant of each operation that ``device`` computes right, the exact one of others.

    ``subnormals``: right for numbers below 2^-126 too, at a price in speed where the device makes them zero.
    Raises BackendError, also where the device is lost.
    """
    return chosen(lambda variants: _answer(device, variants), subnormals=subnormals)


def chosen(answer: Callable[[Mapping[str, str]], bytes], *, subnormals: bool = False) -> Arithmetic:
    """Do the same for what ``answer`` returns: the results of ``wgsl/probe`` with given variants."""
    variants = dict.fromkeys(shaders.PRIMITIVES, shaders.NATIVE)
    try:
        found = _results(answer(variants))
    except DeviceLostError:
        raise
    except BackendError:  # a compiler without the packed dot product
        variants["dot"] = shaders.EXACT
        found = _results(answer(variants))
    wrong = {one.primitive for one in found if one.primitive and (one.wrong or (subnormals and one.flushed))}
    if wrong:
        variants |= dict.fromkeys(wrong, shaders.EXACT)
        found = _results(answer(variants))
    return judged(variants, found)


def judged(variants: Mapping[str, str], results: list[_Result]) -> Arithmetic:
    """Return what ``results`` of the chosen ``variants`` say."""
    failed = tuple(one.name for one in results if one.wrong)
    return Arithmetic(dict(variants), failed, tuple(one.name for one in results if one.flushed))


def operands() -> list[bytes]:
    """Return the buffers of bindings 1 to 3 of ``wgsl/probe``."""
    return [base64.b64decode(text) for text in _data()["operands"]]


def result_bytes() -> int:
    """Return the size of the buffer of binding 4."""
    return len(operands()[0]) * len(_data()["results"])


def _answer(device: GpuDevice, variants: Mapping[str, str]) -> bytes:
    kernel = device.kernel("probe", shaders.source("wgsl/probe", {}, variants))
    uniform = device.uniform(32)
    device.write(uniform, bytes(32))
    given = operands()
    parts = [Slice(device.buffer(len(one)), 0, len(one)) for one in given]
    for part, operand in zip(parts, given, strict=True):
        device.write(part.buffer, operand)
    out = Slice(device.buffer(result_bytes()), 0, result_bytes())
    group = device.bound(kernel, uniform, [*parts, out])
    (answer,) = device.run([Dispatch(kernel, group, (-(-len(given[0]) // 256), 1, 1))], [out])
    return answer


def _results(answer: bytes) -> list[_Result]:
    expected = _data()["results"]
    got = np.frombuffer(answer, np.uint32).reshape(len(expected), -1)
    return [compared(one, words) for one, words in zip(expected, got, strict=True)]


def compared(expected: Mapping[str, Any], got: Words) -> _Result:
    """Return how ``got`` differs from a result of the file; any NaN equals any other."""
    words = np.frombuffer(base64.b64decode(expected["words"]), np.uint32)
    wrong = words != got
    if expected["name"] not in _BITS:
        wrong &= ~(_is_nan(words) & _is_nan(got))
    subnormal = np.frombuffer(expected["kinds"].encode(), np.uint8) == _SUBNORMAL
    return _Result(
        expected["name"],
        expected["primitive"],
        bool(np.any(wrong & ~subnormal)),
        bool(np.any(wrong & subnormal)),
    )


def _is_nan(words: Words) -> NDArray[np.bool_]:
    return (words & np.uint32(0x7FFFFFFF)) > _NAN


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return data
