"""The native engine's model as a ``Forward``, so that tests of Python's run on it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from edgedec.backends.backend import DEFAULT_CACHE
from edgedec.backends.cache_forward import CacheForward
from edgedec.backends.onnx.model import _capabilities
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import (
    BackendError,
    BadFileError,
    ContextFullError,
    EdgeDecError,
    MemoryBudgetError,
    UnsupportedError,
    UsageError,
)
from edgedec.core.forward import Sink, Source
from edgedec.core.rows import LAST_ROW, HeadRows, Parents, Rows
from edgedec.memory import CacheBook
from edgedec.native.probe import function

RUNTIME = next(Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.*"))
_ERRORS: dict[int, type[Exception]] = {
    2: UsageError,
    4: BadFileError,
    5: UnsupportedError,
    8: ContextFullError,
    9: BackendError,
    10: MemoryBudgetError,
    11: MemoryError,
}


def checked(code: int) -> None:
    """Raise the error that a call of a probe of the model returned."""
    if code:
        said = function("model_said", c_char_p, c_int)
        message, hint = (said(which).decode() for which in (0, 1))
        kind = _ERRORS[code]
        raise kind(message, hint=hint or None) if issubclass(kind, EdgeDecError) else kind(message)


class NativeModel:
    """A bundle that the native engine opened."""

    def __init__(
        self,
        bundle: Path,
        manifest: Manifest,
        *,
        threads: int = 2,
        spin: bool = False,
        drafting: bool = False,
        runtime: Path = RUNTIME,
        memory: int = 0,
    ) -> None:
        """``memory``: bytes that the process may take, which decide whether experts stay on the disk."""
        self.spec = manifest.spec
        self._handle = c_void_p()
        numbers = c_int, c_int, c_int, c_int64
        call = function("model_open", c_int, c_char_p, c_char_p, c_char_p, *numbers, c_void_p)
        texts = str(runtime).encode(), str(bundle).encode(), manifest.to_json().encode()
        checked(call(*texts, threads, spin, drafting, memory, byref(self._handle)))

    @property
    def weight_bytes(self) -> int:
        return int(function("model_weights", c_int64, c_void_p)(self._handle))

    def limit(self, slots: int) -> int:
        """Keep so many experts in memory; returns how many there may be, -1 where all weights are there."""
        return int(function("model_slots", c_int64, c_void_p, c_int64)(self._handle, slots))

    def forward(self, cache: CacheConfig = DEFAULT_CACHE) -> NativeForward:
        return NativeForward(self, cache)

    def __del__(self) -> None:
        if self._handle:
            function("model_close", None, c_void_p)(self._handle)


class NativeForward(CacheForward):
    """A cache of the native engine; what it has not is refused as ``CacheForward`` does.

    A malformed call raises ValueError, as Python's forwards do.
    """

    def __init__(self, model: NativeModel, cache: CacheConfig) -> None:
        self._model = model
        self._handle = c_void_p()
        self._open(cache)
        caps = _capabilities(model.spec)
        super().__init__(model.spec, caps, CacheBook(self._facts()[0]))

    def _open(self, cache: CacheConfig) -> None:
        call = function("forward_open", c_int, c_void_p, c_int64, c_int, c_int64, c_void_p)
        config = cache.capacity or 0, cache.kv == "int8", cache.max_pass or 0
        checked(call(self._model._handle, *config, byref(self._handle)))

    def __del__(self) -> None:
        if self._handle:
            function("forward_close", None, c_void_p)(self._handle)

    def _facts(self) -> list[int]:
        facts = (c_int64 * 6)()
        function("forward_facts", None, c_void_p, c_void_p)(self._handle, facts)
        return list(facts)

    @property
    def length(self) -> int:
        return self._facts()[1]

    @property
    def max_pass(self) -> int:
        return self._facts()[2]

    @property
    def leased(self) -> int:
        """Bytes leased for the cache."""
        return self._facts()[3]

    @property
    def leased_rows(self) -> int:
        """Bytes leased for whole rows of logits."""
        return self._facts()[4]

    def free_logits(self) -> None:
        function("forward_free_logits", None, c_void_p)(self._handle)

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        return self._pass(tokens, parents, rows)

    def peek(
        self,
        tokens: Sequence[int],
        *,
        exit: int,
        resume: int | None = None,
        parents: Parents = None,
        rows: Rows = LAST_ROW,
    ) -> HeadRows:
        assert parents is None, "chains"
        return self._pass(tokens, None, rows, exit, resume or 0)

    @property
    def parts(self) -> list[int]:
        """Tokens peeked, layers whose outputs are to be had, bytes leased for hidden states."""
        facts = (c_int64 * 3)()
        function("forward_parts", None, c_void_p, c_void_p)(self._handle, facts)
        return list(facts)

    def _pass(
        self, tokens: Sequence[int], parents: Sequence[int] | None, rows: Rows, exit: int = 0, resume: int = 0
    ) -> HeadRows:
        which = 0 if rows.last else 1 if rows.indices is None else 2
        chosen = rows.indices or ()
        call = function(
            "forward_extend", c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_int, c_void_p,
            c_size_t, c_int, c_double, c_int, c_int, *[c_void_p, c_size_t] * 2,
        )  # fmt: skip
        given = [(c_int * len(one))(*one) for one in (tokens, parents or (), chosen, rows.taps)]
        self._keep = rows.keep  # a binding has its address
        keep = (None, 0) if rows.keep is None else (rows.keep.ctypes.data, rows.keep.size)
        numbers = rows.full, rows.temperature, exit, resume, given[3], len(rows.taps)
        try:
            checked(
                call(
                    self._handle, given[0], len(tokens), given[1], len(parents or ()), which, given[2],
                    len(chosen), *numbers, *keep,
                )
            )  # fmt: skip
        except UsageError as error:
            raise ValueError(error.message) from error
        found = self._rows(rows)
        if not rows.taps:
            return found
        return replace(found, hidden=self._found(5, np.float32).reshape(len(tokens), -1))

    def _rows(self, rows: Rows) -> HeadRows:
        count = len(self._found(2, np.float32))
        values, ids = (
            self._found(at, kind).reshape(count, self.spec.head_k)
            for at, kind in ((0, np.float32), (1, np.int32))
        )
        logits = self._found(4, np.float32).reshape(count, self.spec.vocab_size) if rows.full else None
        spread = self._found(2, np.float32), self._found(3, np.float32)
        return HeadRows(values, ids, *spread, logits, rows.temperature)

    def _found(self, which: int, kind: type[np.generic]) -> NDArray[np.generic]:
        size = c_size_t()
        data = function("forward_rows", c_void_p, c_void_p, c_int, c_void_p)(self._handle, which, byref(size))
        width = np.dtype(kind).itemsize
        return np.frombuffer(ctypes.string_at(data, size.value * width) if size.value else b"", kind)

    def reachable(self, length: int) -> int:
        return int(function("forward_reachable", c_int64, c_void_p, c_int64)(self._handle, length))

    def rewind(self, length: int) -> None:
        self._settled(function("forward_rewind", c_int, c_void_p, c_int64)(self._handle, length))

    def keep_path(self, nodes: Sequence[int]) -> None:
        path = (c_int * len(nodes))(*nodes)
        self._settled(
            function("forward_keep", c_int, c_void_p, c_void_p, c_size_t)(self._handle, path, len(nodes))
        )

    @property
    def cache_layout(self) -> str:
        return str(function("forward_layout", c_char_p, c_void_p)(self._handle).decode())

    def cache_bytes(self, length: int) -> int:
        return int(function("forward_bytes", c_int64, c_void_p, c_int64)(self._handle, length))

    def write_cache(self, sink: Sink, length: int) -> None:
        room, size = self.cache_bytes(max(length, 0)), c_size_t()
        data = ctypes.create_string_buffer(max(room, 1))
        call = function("forward_write", c_int, c_void_p, c_int64, c_void_p, c_size_t, c_void_p)
        self._settled(call(self._handle, length, data, room, byref(size)))
        sink.write(memoryview(data.raw[: size.value]))

    def read_cache(self, source: Source, length: int) -> None:
        data = bytearray(self.cache_bytes(length))
        got = source.readinto(memoryview(data)) or 0
        call = function("forward_read", c_int, c_void_p, c_int64, c_char_p, c_size_t)
        code = call(self._handle, length, bytes(data[:got]), got)
        if code == 4 and got < len(data):
            raise EOFError("the slots are not all there")
        checked(code)

    def nbytes(self) -> dict[str, int]:
        held = {"weights": self._model.weight_bytes, "kv_cache": self.leased}
        return held | ({"state": self._facts()[5]} if self._model.spec.states else {})

    def _settled(self, code: int) -> None:
        try:
            checked(code)
        except UsageError as error:
            raise ValueError(error.message) from error
