"""Kernels that follow one another over named buffers, as steps of a program do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgedec.backends.gpu.device import GpuDevice
from edgedec.backends.gpu.shaders import Const
from tests.gpu.cases import Array, KernelCase, run


@dataclass(frozen=True)
class ChainStep:
    """One dispatch. ``bind``: names of buffers; ``writes``: those that it writes."""

    kernel: str
    consts: Mapping[str, Const]
    bind: Sequence[str]
    writes: Sequence[str]
    grid: tuple[int, int, int]


def follow(
    device: GpuDevice, steps: Sequence[ChainStep], buffers: dict[str, Array], facts: Mapping[str, float]
) -> list[KernelCase]:
    """Run ``steps``; ``buffers`` then holds their results.

    Returns a case for each step, which expects what came out here: for other runners.
    """
    found = []
    for step in steps:
        inputs = tuple(buffers[name] for name in step.bind)
        outputs = {1 + step.bind.index(name): buffers[name] for name in step.writes}
        case = KernelCase(step.kernel, step.consts, inputs, outputs, step.grid, facts)
        for binding, data in run(device, case).items():
            before = outputs[binding]
            outputs[binding] = np.frombuffer(data, before.dtype)[: before.size].reshape(before.shape)
            buffers[step.bind[binding - 1]] = outputs[binding]
        found.append(replace(case, expected=dict(outputs)))
    return found
