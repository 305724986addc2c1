"""An open device: what it computes, and its faults in one line."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edgedec.backends.gpu.adapter import Adapter
from edgedec.backends.gpu.device import Dispatch, GpuDevice, Slice
from edgedec.core.errors import BackendError, DeviceLostError
from tests.gpu import adapters

ADD = """
@group(0) @binding(0) var<uniform> step: vec4<u32>;
@group(0) @binding(1) var<storage, read> left: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) at: vec3<u32>) {
  if (at.x < arrayLength(&out)) { out[at.x] = left[at.x] + step.x; }
}
"""


def adding(device: GpuDevice, count: int) -> tuple[list[Dispatch], Slice]:
    """Dispatches that add 1 twice to 0, 1, 2 ..., and where the sums are."""
    kernel = device.kernel("add", ADD)
    uniform, buffers = device.uniform(16, "step"), [device.buffer(4 * count, f"b{i}") for i in range(3)]
    device.write(uniform, np.array([1, 0, 0, 0], np.uint32))
    device.write(buffers[0], np.arange(count, dtype=np.uint32))
    parts = [Slice(one, 0, 4 * count) for one in buffers]
    grid = (-(-count // 64), 1, 1)
    steps = [Dispatch(kernel, device.bound(kernel, uniform, parts[i : i + 2]), grid) for i in range(2)]
    return steps, parts[2]


def test_dispatches_run_in_order_and_are_read_back() -> None:
    device = adapters.device()
    steps, out = adding(device, 1000)
    found, first = device.run(steps, [out, Slice(out.buffer, 8, 8)])
    np.testing.assert_array_equal(np.frombuffer(found, np.uint32), np.arange(1000) + 2)
    assert np.frombuffer(first, np.uint32).tolist() == [4, 5]


def test_a_source_is_compiled_once() -> None:
    device = adapters.device()
    assert device.kernel("add", ADD) is device.kernel("add", ADD)


def test_dispatches_are_timed() -> None:
    device = adapters.device()
    if not device.timed:
        pytest.skip("the adapter has no timestamps")
    steps, _ = adding(device, 1000)
    seconds = device.timed_run(steps)
    assert len(seconds) == 2
    assert all(0 <= one < 10 for one in seconds)


def test_a_kernel_that_does_not_compile_is_named_in_one_line() -> None:
    with pytest.raises(BackendError, match=r"the kernel broken was refused.*expected identifier") as caught:
        adapters.device().kernel("broken", "fn main( {")
    assert "\n" not in str(caught.value)


def test_a_buffer_over_the_limit_is_refused_by_name() -> None:
    device = adapters.device()
    with pytest.raises(BackendError, match=r"the cache takes .* at most"):
        device.buffer(device.limits["max-buffer-size"] + 4, "the cache")


def test_a_wrong_number_of_buffers_is_refused() -> None:
    device = adapters.device()
    kernel, uniform = device.kernel("add", ADD), device.uniform(16)
    with pytest.raises(BackendError, match="has 3 bindings, and 2 are given"):
        device.bound(kernel, uniform, [Slice(device.buffer(16), 0, 16)])


def test_a_lost_device_says_so_at_every_call() -> None:
    device = GpuDevice.open(adapters.adapter())
    steps, out = adding(device, 8)
    device._handle.destroy()
    for _ in range(2):
        with pytest.raises(DeviceLostError, match="was lost"):
            device.run(steps, [out])
    assert device.lost


LIMITS = {
    "max-buffer-size": 1 << 20,
    "max-storage-buffer-binding-size": 1 << 20,
    "max-storage-buffers-per-shader-stage": 8,
    "max-compute-workgroup-storage-size": 1 << 14,
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-size-x": 256,
    "max-compute-workgroups-per-dimension": 65535,
}


def faked(**calls: Any) -> GpuDevice:
    """A device whose driver answers ``calls``."""
    handle = SimpleNamespace(**calls)
    return GpuDevice(Adapter("Fake", "discrete", "Vulkan", limits=LIMITS), handle, seconds=0.05)


def test_a_driver_that_never_answers_is_a_lost_device() -> None:
    end = threading.Event()
    promise = SimpleNamespace(sync_wait=end.wait)
    encoder = SimpleNamespace(copy_buffer_to_buffer=lambda *_: None, finish=lambda: None)
    device = faked(
        create_buffer=lambda **_: SimpleNamespace(map_async=lambda *_: promise),
        create_command_encoder=lambda: encoder,
        queue=SimpleNamespace(submit=lambda _: None),
    )
    for said in ("did not answer", "was lost before"):
        with pytest.raises(DeviceLostError, match=said):
            device.wait()
    end.set()


def test_no_memory_is_one_line_with_a_remedy() -> None:
    def full(**wanted: Any) -> None:
        raise RuntimeError(
            "Validation Error\n\nCaused by:\n  In wgpuDeviceCreateBuffer\n    Not enough memory left"
        )

    with pytest.raises(
        BackendError, match="no memory for the cache of 64 bytes on Fake: Not enough"
    ) as caught:
        faked(create_buffer=full).buffer(64, "the cache")
    assert [one.name for one in caught.value.remedies] == ["shorter_context", "model"]
