"""Graphs run by OpenVINO: on Intel's NPU where there is one, else on the processor, whoever made it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from edgedec.backends.npu.session import Feeds, Port
from edgedec.core.errors import BackendError
from edgedec.telemetry.cores import physical_cores

if TYPE_CHECKING:
    import openvino

_NPU, _CPU = "NPU", "CPU"


class OpenVinoSession:
    """The ``Session`` of OpenVINO. Every op runs on one device, or loading raises BackendError."""

    def __init__(self, path: Path, threads: int | None = None) -> None:
        device = _NPU if has_npu() else _CPU
        self.title = f"OpenVINO on the {'NPU' if device == _NPU else 'processor'}"
        try:
            compiled = _core().compile_model(path, device, _settings(device, threads))
            self.inputs, self.outputs = _ports(compiled.inputs), _ports(compiled.outputs)
            self._request = compiled.create_infer_request()
        except RuntimeError as error:
            raise _one_line(error) from error

    def run(self, wanted: list[str], feeds: Feeds) -> list[NDArray[Any]]:
        """See ``Session.run``."""
        try:
            self._request.infer(feeds, share_inputs=True)
            # The next pass writes over the request's own memory.
            return [self._request.get_tensor(name).data.copy() for name in wanted]
        except RuntimeError as error:
            raise _one_line(error) from error


def has_npu() -> bool:
    """Whether OpenVINO finds an NPU; it must be installed."""
    return _NPU in _core().available_devices


@cache
def _core() -> openvino.Core:
    """Start OpenVINO, once in a process: it loads a library for each device."""
    import openvino

    return openvino.Core()


def _settings(device: str, threads: int | None) -> dict[str, Any]:
    if device == _NPU:
        return {}
    return {
        "INFERENCE_NUM_THREADS": threads or physical_cores(),
        # Values keep their bits: otherwise inputs of products are rounded to 8, or to bfloat16.
        "EXECUTION_MODE_HINT": "ACCURACY",
        # Ops that it compiles into one cannot take the 16-bit integers between them.
        "SNIPPETS_MODE": "DISABLE",
    }


def _ports(ports: list[Any]) -> dict[str, Port]:
    return {
        port.get_any_name(): Port(port.get_element_type().to_dtype().name, tuple(port.shape))
        for port in ports
    }


def _one_line(error: RuntimeError) -> BackendError:
    # The first lines say which of its source files the exception passed.
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith("Exception from ")]
    text = told[-1] if told else type(error).__name__
    return BackendError(f"OpenVINO refused the model: {text[:300]}")
