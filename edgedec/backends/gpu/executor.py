"""Runs the passes of a program on a GPU, over a KV cache of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from edgedec.backends.gpu import inputs
from edgedec.backends.gpu.device import Dispatch, GpuDevice, Kernel, Recorded, Slice
from edgedec.backends.gpu.inputs import GpuPass
from edgedec.backends.gpu.program import ROTARY, KernelStep, Program, is_cache
from edgedec.backends.gpu.shaders import source
from edgedec.backends.gpu.weights import GpuWeights
from edgedec.core.ledger import Ledger
from edgedec.core.rows import FloatArray

_KEYS = 64
"""Keys after which grids may change: lists of dispatches are kept for as many."""
_MOST_KEPT = 64
_SHORT, _MOST_RECORDED = 16, 8
"""Tokens of passes that are recorded ahead, and passes that are."""

_AT_ONCE = 64
"""Dispatches of a submission of a longer pass."""

_PassKind = tuple[int, int, bool, int]
"""Tokens, rows, whether whole rows are read, and keys by ``_KEYS``: all that decides the dispatches."""

Results = dict[str, bytes]
"""Buffers of the head's results, by the names of ``HeadEnding.results``; and "logits"."""


class Executor:
    """Buffers, kernels and dispatches of ``program``.

    ``variants``: of the prelude, see ``Arithmetic``. Memory is leased from ``ledger`` before it is allocated.
    Raises BackendError and MemoryBudgetError.
    """

    def __init__(
        self,
        device: GpuDevice,
        program: Program,
        weights: GpuWeights,
        variants: Mapping[str, str],
        ledger: Ledger,
    ) -> None:
        self.device, self.program = device, program
        self._weights = weights
        self._leases = [
            ledger.lease("kv_cache", program.cache_bytes()),
            ledger.lease("scratch", program.scratch_bytes()),
        ]
        for lease in self._leases:
            lease.take()
        self._buffers = dict(self._allocated())
        self._uniform = device.uniform(inputs.UNIFORM_BYTES, "the facts of a pass")
        self._steps = [(step, *self._bound(step, variants)) for step in program.steps]
        self._settling = [(step, *self._bound(step, variants)) for step in program.settling]
        self._lists: dict[_PassKind, list[Dispatch]] = {}
        self._recorded: dict[_PassKind, Recorded] = {}

    def run(self, fed: GpuPass) -> Iterator[tuple[int, Results]]:
        """Compute a pass; yield the head's results in parts: their number of rows, and the buffers' bytes.

        Raises BackendError, DeviceLostError.
        """
        most = self.program.max_rows
        self._feed(fed)
        parts = [fed.rows[first : first + most] for first in range(0, len(fed.rows), most)] or [()]
        for number, rows in enumerate(parts):
            self._write("@rows", np.asarray(rows, np.uint32))
            facts = inputs.uniform(len(fed.tokens), fed.length, len(rows), fed.temperature)
            self.device.write(self._uniform, facts)
            reads = dict(self._reads(len(rows), fed.full)) if rows else {}
            found = self._computed(fed, len(rows), list(reads.values()), first=number == 0)
            if rows:
                yield len(rows), dict(zip(reads, found, strict=True))
            else:
                self.device.wait()

    def _computed(self, fed: GpuPass, rows: int, reads: list[Slice], *, first: bool) -> list[bytes]:
        """Run a part of a pass. Short passes recur: while one runs, the next of its kind is recorded.

        A long one is several submissions: some systems reset a GPU that is busy with one for two seconds.
        """
        key, dispatches = self._key(fed, rows, first=first), self._dispatches(fed, rows, first=first)
        if len(fed.tokens) > _SHORT:
            while len(dispatches) > _AT_ONCE:
                self.device.run(dispatches[:_AT_ONCE])
                dispatches = dispatches[_AT_ONCE:]
            return self.device.run(dispatches, reads)
        recorded = self._recorded.pop(key, None) or self.device.record(dispatches, reads)
        self.device.submit(recorded)
        if not fed.full:
            if len(self._recorded) >= _MOST_RECORDED:
                self._recorded.pop(next(iter(self._recorded)))
            self._recorded[key] = self.device.record(dispatches, reads)
        return self.device.collect(recorded)

    def hidden(self, fed: GpuPass) -> FloatArray:
        """Compute a pass of a program without a head; return f32[tokens, hidden size].

        Raises BackendError, DeviceLostError.
        """
        self._feed(fed)
        tokens, name = len(fed.tokens), self.program.hidden
        self.device.write(self._uniform, inputs.uniform(tokens, fed.length, 0))
        whole = Slice(self._buffers[name].buffer, 0, tokens * self.program.buffers[name].bytes)
        (found,) = self.device.run(self._dispatches(fed, 0, first=True), [whole])
        return np.frombuffer(found, np.float32).reshape(tokens, -1)

    def timed(self, fed: GpuPass) -> list[tuple[KernelStep, float]]:
        """Compute a pass, and return its steps with the seconds that each took on the GPU."""
        self._feed(fed)
        rows = fed.rows[: self.program.max_rows]
        self._write("@rows", np.asarray(rows, np.uint32))
        facts = inputs.uniform(len(fed.tokens), fed.length, len(rows), fed.temperature)
        self.device.write(self._uniform, facts)
        steps = [step for step, _, _ in self._chosen(len(fed.tokens), len(rows), fed.full, first=True)]
        seconds = self.device.timed_run(self._dispatches(fed, len(rows), first=True))
        return list(zip(steps, seconds, strict=True))

    def settle(self, start: int, kept: Sequence[int]) -> None:
        """Copy the slots ``start + kept[i]`` to ``start + i``, in every layer; ``kept`` ascends."""
        self._write("@kept", np.asarray(kept, np.uint32))
        self.device.write(self._uniform, inputs.uniform(len(kept), start, 0))
        self.device.run(
            [_dispatch(step, kernel, group, len(kept), 0, start) for step, kernel, group in self._settling]
        )

    def caches(self) -> list[Any]:
        """The buffers of the KV cache, a layer each."""
        return [self._buffers[name].buffer for name in self.program.buffers if is_cache(name)]

    def _allocated(self) -> Iterator[tuple[str, Slice]]:
        memories = {
            number: self.device.buffer(nbytes, "values of a pass")
            for number, nbytes in self.program.memories().items()
        }
        for name, size in self.program.buffers.items():
            nbytes = self.program.buffer_bytes(name)
            if size.memory >= 0:
                yield name, Slice(memories[size.memory], 0, nbytes)
            else:
                label = "the KV cache" if is_cache(name) else name
                yield name, Slice(self.device.buffer(nbytes, label), 0, nbytes)

    def _bound(self, step: KernelStep, variants: Mapping[str, str]) -> tuple[Kernel, Any]:
        kernel = self.device.kernel(step.kernel, source(step.kernel, step.consts, variants))
        slices = [self._weights.parts.get(name) or self._buffers[name] for name in step.bind]
        return kernel, self.device.bound(kernel, self._uniform, slices)

    def _feed(self, fed: GpuPass) -> None:
        for name in self.program.inputs():
            if name == "@tokens":
                self._write(name, np.asarray(fed.tokens, np.uint32))
            elif name == "@positions":
                self._write(name, np.asarray(fed.positions, np.uint32))
            elif name == "@paths":
                self._write(name, inputs.paths(fed.parents))
            elif name.startswith(ROTARY):
                self._write(name, self._rotary(name.removeprefix(ROTARY), fed.positions))

    def _rotary(self, name: str, positions: Sequence[int]) -> Any:
        inline, scale = self.program.inline, self.program.rotary_scale.get(name)
        return inputs.rotary(positions, inline[name], inline[scale] if scale else None)

    def _write(self, name: str, data: Any) -> None:
        if name in self._buffers:
            self.device.write(self._buffers[name].buffer, data)

    def _reads(self, rows: int, full: bool) -> Iterator[tuple[str, Slice]]:
        head = self.program.head
        assert head is not None, "a pass with rows needs a head"
        wanted = {**head.results, **({"logits": head.logits} if full else {})}
        for name, buffer in wanted.items():
            size = self.program.buffers[buffer]
            yield name, Slice(self._buffers[buffer].buffer, 0, rows * size.bytes)

    def _chosen(
        self, tokens: int, rows: int, full: bool, *, first: bool
    ) -> Iterator[tuple[KernelStep, Kernel, Any]]:
        for one in self._steps:
            step = one[0]
            wanted = first if step.when == "always" else rows and (full or step.when == "rows")
            if wanted and step.runs(tokens):
                yield one

    def _key(self, fed: GpuPass, rows: int, *, first: bool) -> _PassKind:
        tokens = len(fed.tokens)
        keys = -(-(fed.length + tokens) // _KEYS) if first else -1
        return tokens, rows, fed.full, keys

    def _dispatches(self, fed: GpuPass, rows: int, *, first: bool) -> list[Dispatch]:
        tokens, length = len(fed.tokens), fed.length
        key = self._key(fed, rows, first=first)
        if key not in self._lists:
            if len(self._lists) >= _MOST_KEPT:
                self._lists.pop(next(iter(self._lists)))
            chosen = self._chosen(tokens, rows, fed.full, first=first)
            self._lists[key] = [
                _dispatch(step, kernel, group, tokens, rows, length) for step, kernel, group in chosen
            ]
        return self._lists[key]


def _dispatch(step: KernelStep, kernel: Kernel, group: Any, tokens: int, rows: int, length: int) -> Dispatch:
    # Grids that count keys are for all of ``_KEYS``: kernels leave out what there is not.
    keys = -(-(length + tokens) // _KEYS) * _KEYS - tokens
    x, y, z = (one.of(tokens, rows, keys) for one in step.grid)
    return Dispatch(kernel, group, (x, y, z))
