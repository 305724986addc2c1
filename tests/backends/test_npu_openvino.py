"""OpenVINO behind the seam of NPUs, without its library: the choice of a device, settings, and errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from edgedec.backends.npu import openvino, plugins
from edgedec.backends.npu.openvino import OpenVinoSession
from edgedec.backends.npu.plugins import CHOICE, OPENVINO, QNN, plugin_for
from edgedec.core.errors import BackendError

REFUSED = """Exception from src/inference/src/cpp/core.cpp:132:
Exception from src/inference/src/dev/plugin.cpp:59:
The op abacus is not known.

"""


class Compiled:
    """A compiled graph without inputs or outputs."""

    inputs: tuple[()] = ()
    outputs: tuple[()] = ()

    def create_infer_request(self) -> Compiled:
        return self

    def infer(self, feeds: object, *, share_inputs: bool) -> None:
        raise RuntimeError(REFUSED)


@dataclass
class Core:
    """OpenVINO with some devices, which keeps what it is asked to compile."""

    available_devices: list[str]
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def compile_model(self, path: Path, device: str, settings: dict[str, Any]) -> Compiled:
        if path.name == "broken":
            raise RuntimeError(REFUSED)
        self.asked.append((device, settings))
        return Compiled()


def core(monkeypatch: pytest.MonkeyPatch, *devices: str) -> Core:
    found = Core(list(devices))
    monkeypatch.setattr(openvino, "_core", lambda: found)
    return found


def test_an_npu_goes_before_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    found = core(monkeypatch, "CPU", "NPU")
    assert OpenVinoSession(Path("graph"), 2).title == "OpenVINO on the NPU"
    assert found.asked == [("NPU", {})]


def test_the_processor_is_named_and_keeps_the_bits_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    found = core(monkeypatch, "CPU")
    assert OpenVinoSession(Path("graph"), 2).title == "OpenVINO on the processor"
    ((device, settings),) = found.asked
    assert (device, settings["INFERENCE_NUM_THREADS"]) == ("CPU", 2)
    assert settings["EXECUTION_MODE_HINT"] == "ACCURACY"


def test_a_refusal_is_one_line_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    core(monkeypatch, "CPU")
    with pytest.raises(BackendError) as loading:
        OpenVinoSession(Path("broken"), 2)
    with pytest.raises(BackendError) as running:
        OpenVinoSession(Path("graph"), 2).run([], {})
    for error in (loading.value, running.value):
        assert error.message == "OpenVINO refused the model: The op abacus is not known."


@pytest.mark.parametrize(("devices", "chosen"), [(["CPU"], QNN), (["CPU", "NPU"], OPENVINO)])
def test_an_npu_goes_before_a_simulator(
    devices: list[str], chosen: plugins.Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    core(monkeypatch, *devices)
    monkeypatch.setattr(plugins, "_SIMULATED", True)
    monkeypatch.setattr(plugins.util, "find_spec", lambda name: ModuleType(name))
    monkeypatch.delenv(CHOICE, raising=False)
    assert plugin_for("npu") is chosen
    monkeypatch.setenv(CHOICE, "qnn")
    assert plugin_for("npu") is QNN
