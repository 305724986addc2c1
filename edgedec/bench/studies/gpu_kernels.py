"""Time of each kernel within passes on a GPU, by the device's own clock, and the weights that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgedec.bench.harness.pairing import Spread, rounded, spread
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.backends.gpu.executor import Executor
    from edgedec.backends.gpu.inputs import GpuPass
    from edgedec.backends.gpu.program import KernelStep, Program

_STREAMED = ("quant_linear/quant_linear", "quant_linear/tiles", "quant_linear/float_linear")
"""Kernels that read a tensor whole; others read rows of it."""


@dataclass(frozen=True, slots=True)
class KernelTime:
    """All steps of a kernel in a pass over ``tokens`` tokens. ``streamed``: bytes of weights read by them.

    ``resident``: tokens in the cache before, where passes of a report differ in that.
    """

    tokens: int
    kernel: str
    steps: int
    ms: Spread
    streamed: int
    resident: int | None = None

    @property
    def gb_per_s(self) -> float:
        """Weights read per second; 0 for a kernel that streams none."""
        return self.streamed / (self.ms.median * 1e-3) / 1e9 if self.ms.median else 0.0

    def as_json(self) -> dict[str, object]:
        return {
            "tokens": self.tokens,
            **({} if self.resident is None else {"resident_tokens": self.resident}),
            "kernel": self.kernel,
            "steps": self.steps,
            **self.ms.named("ms"),
            "streamed_bytes": self.streamed,
            "gb_per_s": rounded(self.gb_per_s),
        }


@dataclass(frozen=True, slots=True)
class GpuStudy:
    """Passes to time: numbers of tokens, tokens resident before them, and rounds."""

    counts: Sequence[int]
    resident: int
    repeat: int
    context: int
    named: bool = False
    """Whether times say how many tokens were resident."""


def measure_kernels(bundle: Path, study: GpuStudy, progress: Progress) -> tuple[KernelTime, ...]:
    """Time the kernels of passes over a bundle's model on the GPU; the slowest kernel of a pass first.

    Empty where the GPU has no timestamps. Raises UsageError, UnsupportedError and BackendError.
    """
    from edgedec.backends.gpu.model import GpuModel
    from edgedec.bundle.manifest import Manifest
    from edgedec.core.cache_config import CacheConfig

    model = GpuModel(bundle, Manifest.load(bundle))
    try:
        if not model.device.timed:
            return ()
        forward = model.forward(CacheConfig(study.context))
        tokens = np.random.default_rng(0).integers(0, model.spec.vocab_size, study.context).tolist()
        most = forward.caps.max_pass
        for start in range(0, study.resident, most):
            forward.extend(tokens[start : min(start + most, study.resident)])
        counts = [count for count in sorted({1, *study.counts}) if count <= most]
        return tuple(_times(forward.executor, study, counts, tokens, progress))
    finally:
        model.device.close()


def _times(
    executor: Executor, study: GpuStudy, counts: Sequence[int], tokens: Sequence[int], progress: Progress
) -> Iterator[KernelTime]:
    total = len(counts) * (study.repeat + 1)
    for number, count in enumerate(counts):
        rounds: list[dict[str, float]] = []
        steps: list[KernelStep] = []
        for turn in range(study.repeat + 1):
            found = executor.timed(_pass(tokens, study.resident, count))
            steps = [step for step, _ in found]
            sums: dict[str, float] = {}
            for step, seconds in found:
                sums[step.kernel] = sums.get(step.kernel, 0.0) + seconds
            rounds.append(sums)
            progress("kernels", number * (study.repeat + 1) + turn + 1, total)
        # The first round warms up.
        times = {kernel: spread(1e3 * one[kernel] for one in rounds[1:]) for kernel in rounds[-1]}
        for kernel in sorted(times, key=lambda name: -times[name].median):
            mine = [step for step in steps if step.kernel == kernel]
            behind = study.resident if study.named else None
            yield KernelTime(
                count, kernel, len(mine), times[kernel], _streamed(executor.program, mine), behind
            )


def _streamed(program: Program, steps: Sequence[KernelStep]) -> int:
    return sum(program.tensors[step.bind[0]].bytes for step in steps if step.kernel in _STREAMED)


def _pass(tokens: Sequence[int], resident: int, count: int) -> GpuPass:
    from edgedec.backends.gpu.inputs import GpuPass

    positions = range(resident, resident + count)
    return GpuPass(tokens[:count], positions, range(-1, count - 1), resident, range(count))
