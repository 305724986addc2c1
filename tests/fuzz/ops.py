"""Calls of single ops through ONNX Runtime, with inputs that end where memory that may be read ends."""

from __future__ import annotations

import ctypes
import json
import math
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from edgedec.backends.onnx.session import one_line_errors
from edgedec.core.errors import BadFileError
from edgedec.kernels import library
from tests.fuzz.op_cases import CALL, GRAPH

_NUMPY = {"f32": np.float32, "u8": np.uint8, "i64": np.int64, "f16": np.float16, "i32": np.int32}
_MOST_BYTES = 1 << 18
_RANDOM = np.random.default_rng(0).integers(0, 256, 1 << 16, dtype=np.uint8)
_C = ctypes.CDLL(None, use_errno=True)
_C.mmap.restype = ctypes.c_void_p
_C.mmap.argtypes = [ctypes.c_void_p, *[ctypes.c_size_t] * 5]
_C.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_C.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Fenced:
    """``size`` bytes of memory at whose end a page begins that nobody may touch. With ``heap`` they come
    from malloc instead, which a sanitizer watches on both sides.
    """

    def __init__(self, size: int, *, heap: bool) -> None:
        self._mapped = 0
        if heap:
            self._array = np.empty(max(size, 1), np.uint8)
            self.address = self._array.ctypes.data
            return
        page = mmap.PAGESIZE
        whole = -(-size // page) * page + page
        start = _C.mmap(
            None, whole, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANON, -1, 0
        )
        if start in (None, ctypes.c_void_p(-1).value):
            raise MemoryError(f"{whole} bytes")
        self._start, self._mapped = start, whole
        assert _C.mprotect(start + whole - page, page, 0) == 0
        self.address = start + whole - page - size

    def fill(self, data: np.ndarray[Any, Any]) -> None:
        ctypes.memmove(self.address, data.ctypes.data, data.nbytes)

    def __del__(self) -> None:
        if self._mapped:
            _C.munmap(self._start, self._mapped)


def read_op(folder: Path) -> None:
    """Run the graph twice: what it keeps from a first call must not be believed in a second."""
    call = _call((folder / CALL).read_bytes())
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 2
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with one_line_errors(loading=True):
        options.register_custom_ops_library(str(library.library_path()))
        session = ort.InferenceSession(str(folder / GRAPH), options, providers=["CPUExecutionProvider"])
    with one_line_errors():
        for _ in range(2):
            _run(session, call)


def _call(data: bytes) -> dict[str, Any]:
    """Raises BadFileError for a call that takes more memory than it is worth."""
    call: dict[str, Any] = json.loads(data)
    for given in call.values():
        if math.prod(given["shape"]) * np.dtype(_NUMPY[given["type"]]).itemsize > _MOST_BYTES:
            raise BadFileError(f"{CALL} has tensors that are too large")
    return call


def _array(given: dict[str, Any]) -> np.ndarray[Any, Any]:
    kind = np.dtype(_NUMPY[given["type"]])
    count = int(np.prod(given["shape"], dtype=np.int64))
    if given["values"]:
        with np.errstate(all="ignore"):
            values = np.array(given["values"])
            values = values if kind.kind == "f" else values.astype(object)
            if kind.kind != "f":
                values = np.array([int(v) % 2 ** (8 * kind.itemsize) if v == v and abs(v) < 1e30 else 0
                                   for v in values], dtype=np.uint64)  # fmt: skip
            return np.resize(values.astype(kind), count)
    if kind.kind == "f" and kind.itemsize == 4:
        return np.resize(_RANDOM.astype(np.float32) / 128 - 1, count)
    return np.resize(_RANDOM.view(kind), count)


def _run(session: ort.InferenceSession, call: dict[str, Any]) -> None:
    binding = session.io_binding()
    heap = "libasan" in os.environ.get("LD_PRELOAD", "")
    memory = []
    wanted = {node.name for node in session.get_inputs()}
    for name, given in call.items():
        if name not in wanted:
            continue
        array, shift = _array(given), int(given["shift"]) % 64
        fenced = Fenced(array.nbytes + (0 if heap else shift), heap=heap)
        if heap and shift:
            fenced = Fenced(array.nbytes + shift, heap=True)
            fenced.address += shift
        fenced.fill(array)
        memory.append(fenced)
        binding.bind_input(name, "cpu", 0, array.dtype.type, given["shape"], fenced.address)
    for node in session.get_outputs():
        binding.bind_output(node.name, "cpu")
    session.run_with_iobinding(binding)
    binding.copy_outputs_to_cpu()
