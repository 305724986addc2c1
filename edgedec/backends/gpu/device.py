"""An open GPU: buffers, pipelines of kernels, lists of dispatches, and what is read back from them.

Every fault of the driver becomes one line. Every wait has a limit: a driver that hangs is a lost device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from edgedec.backends.gpu.adapter import Adapter
from edgedec.backends.gpu.waiting import Waiter
from edgedec.core.errors import BackendError, DeviceLostError, EdgeDecError, Remedy, one_line
from edgedec.core.quick_dataclass import dataclass

ALIGNMENT = 256
"""Bytes: bound parts of a buffer begin at multiples of it, on every adapter."""
WAIT_SECONDS = 60.0
"""Longest wait for a GPU. A software adapter may take ``SOFTWARE_SECONDS``."""
SOFTWARE_SECONDS = 1800.0

# Usages of buffers, as numbered by the WebGPU specification.
_MAP_READ, _COPY_SRC, _COPY_DST, _UNIFORM, _STORAGE, _RESOLVE = 1, 4, 8, 64, 128, 512
_COMPUTE = 4
_MOST_STAMPS = 4096
_TIMED = "timestamp-query"
_LIMITS = (
    "max-buffer-size",
    "max-storage-buffer-binding-size",
    "max-storage-buffers-per-shader-stage",
    "max-compute-workgroup-storage-size",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-size-x",
    "max-compute-workgroups-per-dimension",
)
_BINDING = re.compile(r"@binding\((\d+)\)\s*var<\s*(uniform|storage)\s*(?:,\s*(read_write|read)\s*)?>")


@dataclass(frozen=True, slots=True)
class Slice:
    """Bytes of a buffer."""

    buffer: Any
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compiled kernel. ``bindings``: its bindings, uniform ones too."""

    name: str
    pipeline: Any
    layout: Any
    bindings: int


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A kernel over bound buffers. ``grid``: workgroups by dimension."""

    kernel: Kernel
    group: Any
    grid: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Copy:
    """Bytes that go from one buffer into another, between dispatches."""

    source: Slice
    target: Slice


Command = Dispatch | Copy


@dataclass(frozen=True, slots=True)
class Recorded:
    """Commands that can be submitted once, and the buffer that their ``reads`` are copied to."""

    commands: Any
    reads: tuple[Slice, ...]
    staging: Any
    total: int


class GpuDevice:
    """``handle``: a device of WebGPU, or something that takes its calls. Not for several threads.

    ``seconds``: the longest wait. After a DeviceLostError every call raises one.
    """

    def __init__(self, adapter: Adapter, handle: Any, *, seconds: float | None = None) -> None:
        self.adapter = adapter
        self._handle = handle
        self._seconds = seconds or (SOFTWARE_SECONDS if adapter.software else WAIT_SECONDS)
        self._kernels: dict[str, Kernel] = {}
        self._staging: dict[int, Any] = {}
        self._last: Slice | None = None
        self._waiter = Waiter()
        self.limits: dict[str, int] = {name: adapter.limits[name] for name in _LIMITS}
        self.timed = _TIMED in adapter.features
        """Whether ``timed_run`` can time dispatches."""
        self.lost = False

    @classmethod
    def open(cls, adapter: Adapter, *, seconds: float | None = None) -> GpuDevice:
        """Open ``adapter`` with the largest limits that it has. Raises BackendError."""
        wanted = {name: adapter.limits[name] for name in _LIMITS if name in adapter.limits}
        features = [_TIMED] if _TIMED in adapter.features else []
        try:
            handle = adapter.handle.request_device_sync(required_features=features, required_limits=wanted)
        except Exception as error:
            raise BackendError(f"{adapter.name} cannot be opened: {_first_line(error)}") from error
        return cls(adapter, handle, seconds=seconds)

    def buffer(self, nbytes: int, label: str = "") -> Any:
        """Make a buffer that kernels read and write. Raises BackendError where it does not fit."""
        most = self.limits["max-buffer-size"]
        if nbytes > most:
            raise BackendError(f"{label} takes {nbytes} bytes, and a buffer of this GPU at most {most}")
        return self._made(nbytes, _STORAGE | _COPY_SRC | _COPY_DST, label)

    def uniform(self, nbytes: int, label: str = "") -> Any:
        """Make a buffer for a kernel's ``var<uniform>``. Raises BackendError."""
        return self._made(nbytes, _UNIFORM | _COPY_DST, label)

    def write(self, buffer: Any, data: Any, offset: int = 0) -> None:
        """Write ``data``, of a multiple of four bytes, ahead of the next dispatches. Raises BackendError."""
        if memoryview(data).nbytes:
            with self._errors("writing"):
                self._handle.queue.write_buffer(buffer, offset, data)

    def kernel(self, name: str, source: str) -> Kernel:
        """Compile ``source``, once. Raises BackendError, one line, that names the kernel and the fault."""
        if source not in self._kernels:
            with self._errors(f"the kernel {name}"):
                self._kernels[source] = self._compiled(name, source)
        return self._kernels[source]

    def bound(self, kernel: Kernel, uniform: Any, parts: Sequence[Slice]) -> Any:
        """Bind ``uniform`` to a kernel's binding 0, and ``parts`` to 1 and on. Raises BackendError."""
        if kernel.bindings != 1 + len(parts):
            raise BackendError(
                f"the kernel {kernel.name} has {kernel.bindings} bindings, and {1 + len(parts)} are given"
            )
        entries = [{"binding": 0, "resource": {"buffer": uniform, "offset": 0, "size": uniform.size}}]
        for number, part in enumerate(parts, 1):
            place = {"buffer": part.buffer, "offset": part.offset, "size": part.nbytes}
            entries.append({"binding": number, "resource": place})
        with self._errors(f"the kernel {kernel.name}"):
            return self._handle.create_bind_group(layout=kernel.layout, entries=entries)

    def run(self, commands: Sequence[Command], reads: Sequence[Slice] = ()) -> list[bytes]:
        """Run ``commands`` in order in one submission, then return the bytes of ``reads``.

        Without ``reads`` nothing is waited for. Raises BackendError, DeviceLostError.
        """
        recorded = self.record(commands, reads)
        self.submit(recorded)
        return self.collect(recorded)

    def record(self, commands: Sequence[Command], reads: Sequence[Slice] = ()) -> Recorded:
        """Record ``commands`` and the copies of ``reads``, to be submitted once. Raises BackendError."""
        with self._errors("a pass"):
            encoder = self._handle.create_command_encoder()
            within = None
            for one in commands:
                if isinstance(one, Copy):
                    if within:
                        within.end()
                    within = None
                    _copied(encoder, one)
                    continue
                within = within or encoder.begin_compute_pass()
                within.set_pipeline(one.kernel.pipeline)
                within.set_bind_group(0, one.group)
                within.dispatch_workgroups(*one.grid)
            if within:
                within.end()
            return self._finished(encoder, reads)

    def submit(self, recorded: Recorded) -> None:
        """Start what was recorded, behind all that was written. Raises BackendError, DeviceLostError."""
        with self._errors("a pass"):
            self._handle.queue.submit([recorded.commands])

    def collect(self, recorded: Recorded) -> list[bytes]:
        """Wait for the reads of what was submitted. Raises BackendError, DeviceLostError."""
        if not recorded.total:
            return [b"" for _ in recorded.reads]
        with self._errors("a pass"):
            self._await(recorded.staging.map_async("READ_NOSYNC", 0, recorded.total))
            try:
                data = bytes(recorded.staging.read_mapped(0, recorded.total, copy=False))
            finally:
                recorded.staging.unmap()
        found, at = [], 0
        for part in recorded.reads:
            found.append(data[at : at + part.nbytes])
            at += part.nbytes
        return found

    def timed_run(self, dispatches: Sequence[Dispatch]) -> list[float]:
        """Run ``dispatches`` and return the seconds that each took on the GPU.

        Raises BackendError, also where the adapter has no timestamps.
        """
        if not self.timed:
            raise BackendError(f"{self.adapter.name} has no timestamps")
        each = _MOST_STAMPS // 2
        return [
            seconds
            for first in range(0, len(dispatches), each)
            for seconds in self._timed_part(dispatches[first : first + each])
        ]

    def copy(self, pairs: Sequence[tuple[Slice, Slice]]) -> None:
        """Copy parts of buffers, each from one into another, ahead of the next dispatches."""
        with self._errors("a copy"):
            encoder = self._handle.create_command_encoder()
            for source, target in pairs:
                _copied(encoder, Copy(source, target))
            self._handle.queue.submit([encoder.finish()])

    def clear(self, parts: Sequence[Slice]) -> None:
        """Fill parts of buffers with zeros, ahead of the next dispatches."""
        with self._errors("clearing"):
            encoder = self._handle.create_command_encoder()
            for part in parts:
                encoder.clear_buffer(part.buffer, part.offset, part.nbytes)
            self._handle.queue.submit([encoder.finish()])

    def wait(self) -> None:
        """Wait until everything submitted is done. Raises DeviceLostError."""
        # By reading what comes behind it: the package's own call for this fails (wgpu 0.32).
        if self._last is None:
            self._last = Slice(self.buffer(16, "a mark"), 0, 16)
        self.run([], [self._last])

    def close(self) -> None:
        """Give the device back; its buffers cannot be used any more."""
        self._kernels.clear()
        self._staging.clear()
        self._handle.destroy()
        self._waiter.close()

    def _timed_part(self, dispatches: Sequence[Dispatch]) -> list[float]:
        count = 2 * len(dispatches)
        with self._errors("a timed pass"):
            stamps = self._handle.create_query_set(type="timestamp", count=count)
            resolved = self._handle.create_buffer(size=8 * count, usage=_RESOLVE | _COPY_SRC)
            encoder = self._handle.create_command_encoder()
            for number, one in enumerate(dispatches):
                within = encoder.begin_compute_pass(
                    timestamp_writes={
                        "query_set": stamps,
                        "beginning_of_pass_write_index": 2 * number,
                        "end_of_pass_write_index": 2 * number + 1,
                    }
                )
                within.set_pipeline(one.kernel.pipeline)
                within.set_bind_group(0, one.group)
                within.dispatch_workgroups(*one.grid)
                within.end()
            encoder.resolve_query_set(stamps, 0, count, resolved, 0)
            recorded = self._finished(encoder, [Slice(resolved, 0, 8 * count)])
        self.submit(recorded)
        (data,) = self.collect(recorded)
        ticks = memoryview(data).cast("Q").tolist()
        return [1e-9 * (end - start) for start, end in zip(ticks[::2], ticks[1::2], strict=True)]

    def _finished(self, encoder: Any, reads: Sequence[Slice]) -> Recorded:
        total = sum(part.nbytes for part in reads)
        staging = self._staging_for(total) if total else None
        at = 0
        for part in reads:
            if part.nbytes:
                encoder.copy_buffer_to_buffer(part.buffer, part.offset, staging, at, part.nbytes)
                at += part.nbytes
        return Recorded(encoder.finish(), tuple(reads), staging, total)

    def _staging_for(self, nbytes: int) -> Any:
        """A buffer to read ``nbytes`` from: of a power of two, kept for the next time unless it is large."""
        size = max(1 << (nbytes - 1).bit_length(), 4096)
        if size > 1 << 22:
            return self._handle.create_buffer(size=nbytes, usage=_MAP_READ | _COPY_DST)
        if size not in self._staging:
            self._staging[size] = self._handle.create_buffer(size=size, usage=_MAP_READ | _COPY_DST)
        return self._staging[size]

    def _await(self, promise: Any) -> None:
        if not self._waiter.done(promise.sync_wait, self._seconds):
            self._lose(f"it did not answer for {self._seconds:.0f} seconds")

    def _compiled(self, name: str, source: str) -> Kernel:
        kinds = {
            int(number): "uniform"
            if space == "uniform"
            else "storage"
            if access == "read_write"
            else "read-only-storage"
            for number, space, access in _BINDING.findall(source)
        }
        module = self._handle.create_shader_module(code=source)
        entries = [
            {"binding": number, "visibility": _COMPUTE, "buffer": {"type": kind}}
            for number, kind in sorted(kinds.items())
        ]
        layout = self._handle.create_bind_group_layout(entries=entries)
        pipeline = self._handle.create_compute_pipeline(
            layout=self._handle.create_pipeline_layout(bind_group_layouts=[layout]),
            compute={"module": module, "entry_point": "main"},
        )
        return Kernel(name, pipeline, layout, len(kinds))

    def _made(self, nbytes: int, usage: int, label: str) -> Any:
        with self._errors(f"no memory for {label or 'a buffer'} of {nbytes} bytes", memory=True):
            return self._handle.create_buffer(size=max(nbytes, 4), usage=usage)

    @contextmanager
    def _errors(self, doing: str, *, memory: bool = False) -> Iterator[None]:
        """Turn the driver's exceptions into one line; ``doing``: the thing that failed."""
        if self.lost:
            self._lose("it was lost before")
        try:
            yield
        except EdgeDecError:
            raise
        except Exception as error:
            text = str(error)
            if "lost" in text.lower():
                self._lose(_first_line(error), error)
            if memory or "OutOfMemory" in type(error).__name__:
                raise BackendError(
                    f"{doing} on {self.adapter.name}: {_first_line(error)}",
                    hint="use a smaller context, or a smaller model",
                    remedy=(Remedy("shorter_context"), Remedy("model")),
                ) from error
            raise BackendError(f"{doing} was refused by {self.adapter.name}: {_first_line(error)}") from error

    def _lose(self, why: str, error: Exception | None = None) -> NoReturn:
        self.lost = True
        raise DeviceLostError(f"the GPU {self.adapter.name} was lost: {why}") from error


def _copied(encoder: Any, one: Copy) -> None:
    """Record a copy, outside of a pass of dispatches."""
    source, target = one.source, one.target
    encoder.copy_buffer_to_buffer(source.buffer, source.offset, target.buffer, target.offset, source.nbytes)


def _first_line(error: Exception) -> str:
    """The part of a driver's message that says what is wrong: its headings say where it was noticed."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [one for one in lines if not one.startswith(("Validation Error", "Caused by", "In wgpu"))]
    return one_line(" ".join(telling or lines or [type(error).__name__]))[:400]
