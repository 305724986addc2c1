"""Runs the passes of a program on a GPU, over a KV cache of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from edgedec.backends.gpu import inputs
from edgedec.backends.gpu.device import Command, Copy, Dispatch, GpuDevice, Kernel, Recorded, Slice
from edgedec.backends.gpu.inputs import GpuPass, Route, TrimmedIds
from edgedec.backends.gpu.program import (
    ROTARY,
    TRIM_IDS,
    TRIM_TILES,
    WORD,
    KernelStep,
    PassSizes,
    Program,
    is_cache,
    is_state,
    kept_tap,
)
from edgedec.backends.gpu.shaders import source
from edgedec.backends.gpu.weights import GpuWeights
from edgedec.core.ledger import Ledger
from edgedec.core.rows import FloatArray

_MOST_KEPT = 64
_SHORT, _MOST_RECORDED = 16, 24
"""Tokens of passes that are recorded ahead, and passes that are."""

_AT_ONCE = 64
"""Dispatches of a submission of a longer pass."""

_BLOCK = 1024
"""Entries of the vocabulary that have a sum."""

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
        if program.state_bytes():
            self._leases.append(ledger.lease("state", program.state_bytes()))
        for lease in self._leases:
            lease.take()
        self._buffers = dict(self._allocated())
        self._uniform = device.uniform(inputs.UNIFORM_BYTES, "the facts of a pass")
        self._steps = [(step, *self._bound(step, variants)) for step in program.steps]
        self._settling = [(step, *self._bound(step, variants)) for step in program.settling]
        self._lists: dict[_PassKind, list[Command]] = {}
        self._recorded: dict[_PassKind, Recorded] = {}
        self._kept: TrimmedIds | None = None

    def run(self, fed: GpuPass) -> Iterator[tuple[int, Results]]:
        """Compute a pass; yield the head's results in parts: their number of rows, and the buffers' bytes.

        Raises BackendError, DeviceLostError.
        """
        most = self.program.max_rows
        self._feed(fed)
        parts = [fed.rows[first : first + most] for first in range(0, len(fed.rows), most)] or [()]
        for number, rows in enumerate(parts):
            self._write("@rows", np.asarray(rows, np.uint32))
            self._facts(fed, len(rows))
            reads = dict(self._reads(fed, len(rows))) if rows else {}
            found = self._computed(fed, len(rows), list(reads.values()), first=number == 0)
            if rows:
                yield len(rows), dict(zip(reads, found, strict=True))
            else:
                self.device.wait()

    def advance(self, fed: GpuPass) -> None:
        """Start a pass whose route ends below the head. Raises BackendError, DeviceLostError."""
        self._feed(fed)
        self._facts(fed, 0)
        self._computed(fed, 0, [], first=True)

    def states(self, tokens: int, taps: Sequence[int]) -> FloatArray:
        """Return the rows that are kept behind layers, side by side: f32[tokens, width].

        Raises BackendError, DeviceLostError.
        """
        found = self.device.run([], [self._rows_of(kept_tap(layer), 0, tokens) for layer in taps])
        return np.concatenate([np.frombuffer(one, np.float32).reshape(tokens, -1) for one in found], axis=1)

    def _computed(self, fed: GpuPass, rows: int, reads: list[Slice], *, first: bool) -> list[bytes]:
        """Run a part of a pass. Short passes recur: while one runs, the next of its kind is recorded.

        A long one is several submissions: some systems reset a GPU that is busy with one for two seconds.
        """
        key, commands = _pass_kind(fed, rows, first=first), self._commands(fed, rows, first=first)
        if len(fed.tokens) > _SHORT:
            while len(commands) > _AT_ONCE:
                self.device.run(commands[:_AT_ONCE])
                commands = commands[_AT_ONCE:]
            return self.device.run(commands, reads)
        recorded = self._recorded.pop(key, None) or self.device.record(commands, reads)
        self.device.submit(recorded)
        if not fed.full:
            if len(self._recorded) >= _MOST_RECORDED:
                self._recorded.pop(next(iter(self._recorded)))
            self._recorded[key] = self.device.record(commands, reads)
        return self.device.collect(recorded)

    def hidden(self, fed: GpuPass) -> FloatArray:
        """Compute a pass of a program without a head; return f32[tokens, hidden size].

        Raises BackendError, DeviceLostError.
        """
        self._feed(fed)
        self._facts(fed, 0)
        tokens = len(fed.tokens)
        whole = self._rows_of(self.program.hidden, 0, tokens)
        (found,) = self.device.run(self._commands(fed, 0, first=True), [whole])
        return np.frombuffer(found, np.float32).reshape(tokens, -1)

    def timed(self, fed: GpuPass) -> list[tuple[KernelStep, float]]:
        """Compute a pass, and return its steps with the seconds that each took on the GPU."""
        self._feed(fed)
        rows = fed.rows[: self.program.max_rows]
        self._write("@rows", np.asarray(rows, np.uint32))
        self._facts(fed, len(rows))
        chosen = list(self._chosen(self._steps, fed, len(rows), first=True))
        seconds = self.device.timed_run([_dispatch(one, fed, len(rows)) for one in chosen])
        return [(one[0], taken) for one, taken in zip(chosen, seconds, strict=True)]

    def settle(self, start: int, kept: Sequence[int]) -> None:
        """Copy the slots ``start + kept[i]`` to ``start + i``, in every layer; ``kept`` ascends."""
        self._write("@kept", np.asarray(kept, np.uint32))
        moved = GpuPass(kept, (), (), start, ())
        self._facts(moved, 0)
        self.device.run([_dispatch(one, moved, 0) for one in self._settling])

    def caches(self) -> list[Any]:
        """The buffers of the KV cache, a layer each."""
        return [self._buffers[name].buffer for name in self.program.buffers if is_cache(name)]

    def buffer(self, name: str) -> Slice:
        """Return one buffer of the program."""
        return self._buffers[name]

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
                label = "the KV cache" if is_cache(name) else "states" if is_state(name) else name
                yield name, Slice(self.device.buffer(nbytes, label), 0, nbytes)

    def _bound(self, step: KernelStep, variants: Mapping[str, str]) -> tuple[Kernel, Any]:
        kernel = self.device.kernel(step.kernel, source(step.kernel, step.consts, variants))
        slices = [self._weights.parts.get(name) or self._buffers[name] for name in step.bind]
        return kernel, self.device.bound(kernel, self._uniform, slices)

    def _facts(self, fed: GpuPass, rows: int) -> None:
        self.device.write(self._uniform, inputs.uniform(fed, rows))

    def _feed(self, fed: GpuPass) -> None:
        if fed.keep is not None and fed.keep is not self._kept:
            self._write(TRIM_TILES, fed.keep.tiles)
            self._write(TRIM_IDS, fed.keep.ids.astype(np.uint32))
            self._kept = fed.keep
        for name in self.program.inputs():
            if name == "@tokens":
                self._write(name, np.asarray(fed.tokens, np.uint32))
            elif name == "@positions":
                self._write(name, np.asarray(fed.positions, np.uint32))
            elif name == "@paths":
                self._write(name, inputs.paths(fed.parents))
            elif name == "@steps":
                self._write(name, inputs.steps(fed, self.program.convolution))
            elif name.startswith(ROTARY):
                self._write(name, self._rotary(name.removeprefix(ROTARY), fed.positions))

    def _rotary(self, name: str, positions: Sequence[int]) -> Any:
        inline, scale = self.program.inline, self.program.rotary_scale.get(name)
        return inputs.rotary(positions, inline[name], inline[scale] if scale else None)

    def _write(self, name: str, data: Any) -> None:
        if name in self._buffers:
            self.device.write(self._buffers[name].buffer, data)

    def _rows_of(self, name: str, first: int, count: int) -> Slice:
        row = self.program.buffers[name].bytes
        return Slice(self._buffers[name].buffer, first * row, count * row)

    def _reads(self, fed: GpuPass, rows: int) -> Iterator[tuple[str, Slice]]:
        head = self.program.head
        assert head is not None, "a pass with rows needs a head"
        wanted = {**head.results, **({"logits": head.logits} if fed.full else {})}
        entries = len(fed.keep.ids) if fed.keep else head.vocabulary
        of_head = {"sums": -(-entries // _BLOCK) * 3 * WORD, "logits": entries * WORD}
        for name, buffer in wanted.items():
            row = of_head.get(name, self.program.buffers[buffer].bytes)
            yield name, Slice(self._buffers[buffer].buffer, 0, rows * row)

    def _chosen(self, steps: Sequence[_Bound], fed: GpuPass, rows: int, *, first: bool) -> Iterator[_Bound]:
        head = ("rows", "whole" if fed.keep is None else "kept")
        for one in steps:
            step = one[0]
            wanted = first if step.when == "always" else rows and step.when in head
            if wanted and step.runs(len(fed.tokens)):
                yield one

    def _commands(self, fed: GpuPass, rows: int, *, first: bool) -> list[Command]:
        key = _pass_kind(fed, rows, first=first)
        if key not in self._lists:
            if len(self._lists) >= _MOST_KEPT:
                self._lists.pop(next(iter(self._lists)))
            self._lists[key] = list(self._pass(fed, rows) if first else self._layers(fed, rows, first=False))
        return self._lists[key]

    def _pass(self, fed: GpuPass, rows: int) -> Iterator[Command]:
        """A pass along its route: whole, or in two parts between which other layers may lie."""
        route, first, count = fed.route, fed.first, len(fed.tokens)
        if route is None:
            yield from self._layers(fed, rows)
            return
        if route.below:
            yield from self._layers(fed, 0, end=self.program.behind(route.below).steps)
        if route.above:
            above, source = self.program.behind(route.above), kept_tap(route.source)
            yield Copy(self._rows_of(source, first, count), self._rows_of(above.out, 0, count))
            yield from self._layers(fed, rows, begin=above.steps)

    def _layers(
        self, fed: GpuPass, rows: int, *, begin: int = 0, end: int | None = None, first: bool = True
    ) -> Iterator[Command]:
        """Run the steps from ``begin`` on, and copy rows that are to be kept as soon as they are there."""
        count = len(fed.tokens)
        for one in self.program.layers if first else ():
            if one.layer in fed.taps and begin < one.steps <= (end or one.steps):
                for bound in self._chosen(self._steps[begin : one.steps], fed, rows, first=first):
                    yield _dispatch(bound, fed, rows)
                kept = self._rows_of(kept_tap(one.layer), fed.first, count)
                yield Copy(self._rows_of(one.out, 0, count), kept)
                begin = one.steps
        for bound in self._chosen(self._steps[begin:end], fed, rows, first=first):
            yield _dispatch(bound, fed, rows)


_Bound = tuple[KernelStep, Kernel, Any]
"""A step, its compiled kernel, and its bound buffers."""
_PassKind = tuple[int, int, int, int, bool, Route | None, tuple[int, ...], int, int, bool]


def _pass_kind(fed: GpuPass, rows: int, *, first: bool) -> _PassKind:
    """All that decides the commands and reads of a part of a pass."""
    tokens = len(fed.tokens)
    kept, tiles = (len(fed.keep.ids), len(fed.keep.tiles)) if fed.keep else (0, 0)
    return tokens, fed.behind, fed.first, rows, fed.full, fed.route, fed.taps, kept, tiles, first


def _dispatch(one: _Bound, fed: GpuPass, rows: int) -> Dispatch:
    step, kernel, group = one
    tokens = len(fed.tokens)
    kept, tiles = (len(fed.keep.ids), len(fed.keep.tiles)) if fed.keep else (0, 0)
    sizes = PassSizes(tokens, rows, kept, tiles, fed.behind + tokens)
    x, y, z = (count.of(sizes) for count in step.grid)
    return Dispatch(kernel, group, (x, y, z))
