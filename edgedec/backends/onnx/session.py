"""An ONNX Runtime session over a bundle, with EdgeDec's kernels, silent and quick to load."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as states

from edgedec.backends.onnx.graph_guard import check_graph, other_model
from edgedec.bundle.manifest import MODEL
from edgedec.core.errors import BackendError, BadFileError, EdgeDecError
from edgedec.core.model_spec import ModelSpec
from edgedec.kernels import library
from edgedec.memory import kv_row_name, ring_keys, whole_keys
from edgedec.telemetry.cores import physical_cores

_BROKEN_FILE = (
    states.InvalidProtobuf,
    states.InvalidGraph,
    states.NoSuchFile,
    states.NoModel,
    states.InvalidArgument,
)
# Every kind of this version, and Python's own: a pass with bound buffers reports every failure as that.
_REFUSED: tuple[type[Exception], ...] = (
    RuntimeError,
    *(kind for kind in vars(states).values() if isinstance(kind, type) and issubclass(kind, Exception)),
)
_INPUTS = {"tokens", "positions", "parents", "length", "rows", "want_logits"}
_OUTPUTS = {"values", "ids", "logsumexp", "entropy", "logits"}
_OLDEST_RUNTIME = (1, 22)
"""As in pyproject.toml; the kernels ask for version 18 of the C API."""
_AGAIN = "verify the bundle, or pull or export the model again"
_CODE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_PLACE = re.compile(r"/\S+\.(?:cc|h):\d+ [^()]*\((?:[^()]|\([^()]*\))*\)(?: const)? ")
"""A line of ONNX Runtime's source, and the function there."""
_EXPERT = re.compile(r"ai\.edgedec\.Experts: (an expert .+)")
"""A fault of the file, as the op says it: ONNX Runtime refused nothing."""
_WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"
_NONE: Mapping[str, NDArray[Any]] = MappingProxyType({})
_SILENT = 4
"""Severity: only fatal errors print; all others arrive as exceptions."""


def open_session(
    bundle: Path,
    threads: int | None = None,
    *,
    spin: bool = True,
    graph: str = MODEL,
    changes: Iterable[Callable[[bytes], bytes]] = (),
    arrays: Mapping[str, NDArray[Any]] = _NONE,
) -> ort.InferenceSession:
    """Load the file ``graph`` of ``bundle`` with its weights mapped, not copied.

    ``threads`` compute threads (None: one per physical core), which ``spin`` for a moment between nodes.
    Runs of EdgeDec's ops are one node each (``library.with_regions``). ``changes`` make another graph of the
    file's, over the same weights; ``arrays`` has the initializers that they add, which the session reads
    where they lie. Raises BadFileError when the graph or weights are broken, BackendError when the runtime or
    the kernel library refuses, UsageError for an EDGEDEC_ISA that cannot run here.
    """
    _check_runtime(ort.__version__)
    library.isa()
    threads = threads or physical_cores()
    options = _options(threads, spin)
    # The exporter fused the graph already; further passes only cost load time.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.disable_prepacking", "1")
    data = check_graph(bundle, graph)
    with one_line_errors(loading=True, graph=graph):
        options.register_custom_ops_library(str(library.library_path()))
        for change in changes:
            data = change(data)
        if arrays:
            values = [ort.OrtValue.ortvalue_from_numpy(array) for array in arrays.values()]
            options.add_external_initializers([*arrays], values)
        data = library.with_regions(data, threads) or data
        options.add_session_config_entry(_WEIGHTS_FOLDER, str(bundle))
        return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def bound_run(session: ort.InferenceSession, binding: ort.IOBinding) -> Callable[[], None]:
    """Return the call of ``session.run_with_iobinding(binding)``, without the checks for other devices."""
    return partial(session._sess.run_with_iobinding, binding._iobinding, None)


def open_standard_session(
    bundle: Path, threads: int | None = None, *, spin: bool = True
) -> ort.InferenceSession:
    """Load a graph of standard ops, without our kernels: ONNX Runtime fuses it and packs weights its own way.

    As ``open_session``; BadFileError also for an op of any other domain.
    """
    _check_runtime(ort.__version__)
    check_graph(bundle, standard=True)
    with one_line_errors(loading=True):
        return ort.InferenceSession(
            str(bundle / MODEL), _options(threads, spin), providers=["CPUExecutionProvider"]
        )


def _options(threads: int | None, spin: bool) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.log_severity_level = _SILENT
    options.intra_op_num_threads = threads or physical_cores()
    options.inter_op_num_threads = 1
    # Spinning threads start the next node at once, but starve each other when cores are shared.
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spin)))
    # After a pass they would go on for a while: in the way of another model, and a waste of battery.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    # A memory plan for every number of tokens seen would be kept for ever.
    options.enable_mem_pattern = False
    return options


def check_shapes(
    session: ort.InferenceSession, spec: ModelSpec, graph: str = MODEL, more: Iterable[str] = ()
) -> None:
    """Raise BadFileError unless the graph has the inputs and outputs of a pass, as the manifest states.

    ``graph``: the name of its file; ``more``: inputs that it has beside those of ``model.onnx``.
    """
    with one_line_errors(loading=True, graph=graph):
        inputs = {node.name: node.shape for node in session.get_inputs()}
        outputs = {node.name: node.shape for node in session.get_outputs()}
        defaulted = {node.name for node in session.get_overridable_initializers()}
    shapes = inputs | outputs
    caches = _caches(spec)
    values, logits = (shapes.get(name, []) for name in ("values", "logits"))
    if (
        (*values[1:], *logits[1:]) != (spec.head_k, spec.vocab_size)
        or any(not _fits(shapes.get(name), stated) for name, stated in caches.items())
        or inputs.keys() != _INPUTS | caches.keys() | set(more)
        or inputs["length"] == [1]
        or not outputs.keys() >= _OUTPUTS
        or not defaulted >= {"temperature", *(["attention"] if whole_keys(spec).layers else [])}
    ):
        raise other_model(graph)


def _caches(spec: ModelSpec) -> dict[str, list[int | str | None]]:
    """Return the shape of each input that is a cache; None for a number that passes decide."""
    whole, rings = whole_keys(spec), ring_keys(spec)
    stated = {
        name: [keys.layers, 2, keys.kv_heads, None, kv_row_name(keys.head_dim)]
        for name, keys in (("kv_cache", whole), ("kv_window", rings))
        if keys
    }
    for kind in spec.states:
        stated[f"{kind.name}_trail"] = [kind.layers, None, kind.trail]
        if kind.state:
            stated[f"{kind.name}_state"] = [kind.layers, None, kind.state]
    return stated | ({"applied": [None]} if spec.states else {})


def _fits(shape: Sequence[int | str | None] | None, stated: Sequence[int | str | None]) -> bool:
    same = zip(shape or (), stated, strict=False)
    return shape is not None and len(shape) == len(stated) and all(b in (None, a) for a, b in same)


def _check_runtime(version: str) -> None:
    # An older runtime lacks functions that the kernels call, and says only that an op is not registered.
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST_RUNTIME:
        wanted = ".".join(map(str, _OLDEST_RUNTIME))
        raise BackendError(
            f"ONNX Runtime {version} is too old", hint=f"install onnxruntime {wanted} or newer"
        )


class one_line_errors:  # noqa: N801 - used like the context managers of contextlib
    """Turn ONNX Runtime's exceptions into EdgeDec's, one line each. A class: passes enter it."""

    def __init__(self, *, loading: bool = False, graph: str = MODEL) -> None:
        self._broken: type[EdgeDecError] = BadFileError if loading else BackendError
        self._graph = graph

    def __enter__(self) -> None:
        """There is nothing to prepare."""

    def __exit__(self, raised: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self.translate(error)

    def translate(self, error: BaseException) -> None:
        """Raise what stands for an exception of ONNX Runtime's; returns for any other."""
        if isinstance(error, UnicodeDecodeError):  # a name in the graph, or in a message about it
            message = f"{self._graph} of the bundle holds a name that is not UTF-8"
            raise BadFileError(message, hint=_AGAIN) from error
        if isinstance(error, _BROKEN_FILE):
            raise _one_line(error, self._broken) from error
        if isinstance(error, _REFUSED):
            kind = self._broken if _EXPERT.search(str(error)) else BackendError
            raise _one_line(error, kind) from error


def _one_line(error: Exception, kind: type[EdgeDecError]) -> EdgeDecError:
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    text = _PLACE.sub("", _CODE.sub("", line))
    hint = _AGAIN if kind is BadFileError else None
    if found := _EXPERT.search(text):
        return kind(found[1], hint=hint)
    return kind(f"ONNX Runtime refused the model: {text[:300]}", hint=hint)
