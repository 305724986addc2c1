"""The runtimes that run passes on an NPU, and sessions on them without any op elsewhere."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module, util
from pathlib import Path
from types import ModuleType
from typing import Any

import onnxruntime as ort

from edgedec.backends.npu.openvino import OpenVinoSession, has_npu
from edgedec.backends.npu.session import OrtSession, Session
from edgedec.backends.onnx.session import one_line_errors
from edgedec.core.cache_config import Device
from edgedec.core.errors import UnsupportedError, UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.installing import pip_install
from edgedec.telemetry.cores import physical_cores

CHOICE = "EDGEDEC_NPU"
"""Environment variable: the plug-in to use, where several are installed."""
_SIMULATED = platform.machine() == "x86_64" and platform.system() == "Linux"
"""Whether QNN has no NPU here, but simulates one."""
_CHIP = "57"
"""QNN's number of Snapdragon 8 Gen 3. Without one it compiles for an NPU that cannot compute with floats."""
SHARED = {"ep.share_ep_contexts": "1"}
"""Settings of sessions whose graphs share the weights of one compiled binary."""
_SILENT = 4


@dataclass(frozen=True, slots=True)
class Plugin:
    """A way of graphs to a device. ``module`` is "" for ONNX Runtime's own ops on the CPU.

    ``provider`` is "" for a runtime of its own.
    """

    name: str
    title: str
    """The device, for people."""
    module: str = ""
    provider: str = "CPUExecutionProvider"
    options: Callable[[ModuleType], Mapping[str, str]] = lambda module: {}
    asked: bool = True
    """Whether it is asked for equal bits; ONNX Runtime's own ops round floats and could answer by luck."""
    compiled: bool = False
    """Whether it loads graphs that QNN compiled ahead of time; the simulator does not."""
    compiler: bool = False
    """Whether it compiles such graphs here."""
    prints: bool = False
    """Whether it writes lines of its own to standard output while it loads."""

    @property
    def installed(self) -> bool:
        """Whether its package is; it is not imported."""
        return not self.module or util.find_spec(self.module) is not None

    @property
    def remedy(self) -> str:
        """The command that installs it."""
        return pip_install("npu")


def _htp(module: ModuleType) -> Mapping[str, str]:
    chip = {"soc_model": _CHIP, "enable_htp_weight_sharing": "1"} if _SIMULATED else {}
    return {"backend_path": module.get_qnn_htp_path(), **chip}


CPU = Plugin("cpu", "onnxruntime", asked=False)
QNN = Plugin(
    "qnn",
    "QNN HTP simulator" if _SIMULATED else "QNN HTP",
    "onnxruntime_qnn",
    "QNNExecutionProvider",
    _htp,
    compiled=not _SIMULATED,
    compiler=_SIMULATED,
    prints=_SIMULATED,
)
OPENVINO = Plugin("openvino", "OpenVINO", "openvino", provider="")
PLUGINS = (QNN, OPENVINO)
"""In the order in which they are chosen. An NPU goes before a simulator."""


def plugin_for(device: Device) -> Plugin:
    """Return the plug-in that runs passes on ``device``.

    Raises UnsupportedError where none is installed, UsageError for an EDGEDEC_NPU that there is not.
    """
    if device == "cpu":
        return CPU
    wanted = os.environ.get(CHOICE, "")
    if wanted and wanted not in [one.name for one in PLUGINS]:
        names = " and ".join(one.name for one in PLUGINS)
        raise UsageError(f"{CHOICE} names no plug-in: {wanted!r:.40}", hint=f"there are {names}")
    found = [one for one in PLUGINS if wanted in ("", one.name) and one.installed]
    if len(found) > 1 and _SIMULATED and has_npu():
        return OPENVINO
    if found:
        return found[0]
    raise UnsupportedError(f"no plug-in for an NPU is installed{_named(wanted)}", hint=pip_install("npu"))


def open_session(
    plugin: Plugin, path: Path, threads: int | None = None, entries: Mapping[str, str] | None = None
) -> Session:
    """Load a graph. On a plug-in every op runs there, or this fails: none falls back to the CPU.

    ``entries``: further settings of the session. Raises BadFileError for a broken graph, UnsupportedError
    where the plug-in finds no device, BackendError when it refuses the graph.
    """
    if not plugin.provider:
        return OpenVinoSession(path, threads)
    options = ort.SessionOptions()
    options.log_severity_level = _SILENT
    for key, value in (entries or {}).items():
        options.add_session_config_entry(key, value)
    with one_line_errors(loading=True, graph=path.name), _silenced(plugin.prints):
        if not plugin.module:
            options.intra_op_num_threads = threads or physical_cores()
            options.inter_op_num_threads = 1
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            return _wrapped(
                ort.InferenceSession(str(path), options, providers=[plugin.provider]), plugin, path
            )
        module = _registered(plugin)
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        options.add_provider_for_devices([_device(plugin)], dict(plugin.options(module)))
        return _wrapped(ort.InferenceSession(str(path), options), plugin, path)


def _wrapped(session: ort.InferenceSession, plugin: Plugin, path: Path) -> OrtSession:
    return OrtSession(session, plugin.title, path.name)


@cache
def _registered(plugin: Plugin) -> ModuleType:
    """Load the plug-in's library into ONNX Runtime, once in a process."""
    module = import_module(plugin.module)
    ort.register_execution_provider_library(plugin.provider, module.get_library_path())
    return module


def _device(plugin: Plugin) -> Any:
    for one in ort.get_ep_devices():
        if one.ep_name == plugin.provider:
            return one
    raise UnsupportedError(f"{plugin.title} finds no device that it can use on this machine")


def _named(wanted: str) -> str:
    return f" by the name {wanted}" if wanted else ""


@contextmanager
def _silenced(active: bool) -> Iterator[None]:
    """Drop what a library writes to standard output."""
    if not active:
        yield
        return
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
