"""Drafters of the core that run models: kernels/core/api/drafters.cc."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Collection, Sequence
from ctypes import Structure, addressof, byref, c_char_p, c_double, c_int, c_int64, c_void_p
from functools import cache
from struct import pack, unpack_from
from typing import Any, Protocol

import numpy as np

from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import FloatArray
from edgedec.core.tree import EMPTY, DraftTree
from edgedec.core_lib.binding import INT, LONG, POINTER, REAL, bind
from edgedec.core_lib.calls import CalledBack, Calls
from edgedec.core_lib.host_forward import HostForward
from edgedec.core_lib.library import error_of
from edgedec.core_lib.params import params_struct
from edgedec.sampling import DrawParams

_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "exit_new": (POINTER, POINTER),
    "model_new": (POINTER, POINTER),
    "free": (None, POINTER),
    "sampled": (INT, POINTER, POINTER),
    "begin": (INT, POINTER, POINTER, LONG, LONG),
    "commit": (INT, POINTER, POINTER, LONG),
    "read": (INT, POINTER, LONG, POINTER, LONG),
    "propose": (INT, POINTER, LONG, REAL, POINTER, POINTER, POINTER),
    "ahead": (INT, POINTER, POINTER, LONG, LONG, POINTER),
    "work": (None, POINTER, POINTER),
    "bytes": (LONG, POINTER),
}
DOUBTS: tuple[float, float] | None = None
"""Entropy above which drafts end, and the least probable path that is followed; None: the core's own.

For tests: random models are sure of nothing.
"""


class Handle(Protocol):
    """Something of the core that a drafter is made with."""

    handle: int


class CallingHandle(Handle, Protocol):
    """One that calls Python's functions back."""

    calls: Calls


@dataclass(frozen=True, slots=True)
class ModelBytes:
    """Bytes of a draft model: its weights, of a slot of its cache, and of a table beside the head."""

    weights: int
    slot: int
    table: int


@dataclass(frozen=True, slots=True)
class ExitLayers:
    """Layers of a model of ``last`` that draft; see ``edgedec_core_exit``."""

    exit: int
    resume: int | None
    last: int
    ends: Collection[int]
    layer_bytes: float
    head_bytes: float
    table_bytes: int
    vocabulary: int


class _CExit(Structure):
    _fields_ = (
        ("forward", c_void_p),
        ("trimmed", c_void_p),
        ("doubts", c_char_p),
        ("ends", c_char_p),
        ("ends_count", c_int64),
        ("table_bytes", c_int64),
        ("vocabulary", c_int64),
        ("layer_bytes", c_double),
        ("head_bytes", c_double),
        ("exit", c_int),
        ("resume", c_int),
        ("last", c_int),
    )


class _CModel(Structure):
    _fields_ = (
        ("forward", c_void_p),
        ("bridge", c_void_p),
        ("trimmed", c_void_p),
        ("doubts", c_char_p),
        ("weight_bytes", c_double),
        ("slot_bytes", c_double),
        ("table_bytes", c_double),
    )


class DrafterHandle:
    """A drafter of the core over a model of Python's. Raises the errors of that model."""

    def __init__(self, name: str, handle: int, *called: CallingHandle | CalledBack) -> None:
        """``called``: what the drafter calls back."""
        self._core = core = _functions()
        self._name, self._handle, self._called = name, handle, called
        weakref.finalize(self, core["free"], handle)
        self.work = (c_int64 * 4)()
        """Bytes read, passes, bytes of tables so far, and the peeked tokens of the latest draft."""
        self._propose, self._count_work = core["propose"], core["work"]
        self._make_room(16)

    def sampled(self, params: DrawParams) -> None:
        """See ``Drafter.sampled``."""
        self.check(self._core["sampled"](self._handle, byref(params_struct(params))))

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        """See ``Drafter.begin``. Tokens are i32: others raise struct.error."""
        self.check(self._core["begin"](self._handle, _ints(tokens), len(tokens), kept))

    def commit(self, tokens: Sequence[int]) -> None:
        """See ``Drafter.commit``."""
        self.check(self._core["commit"](self._handle, _ints(tokens), len(tokens)))

    def read(self, start: int, hidden: FloatArray) -> None:
        """See ``Drafter.read``."""
        data = np.ascontiguousarray(hidden, np.float32)
        outcome = self._core["read"](self._handle, start, data.ctypes.data, data.size)
        self._count_work(self._handle, self.work)  # a drafter may read in passes of its own
        self.check(outcome)

    def propose(self, limit: int, floor: float) -> DraftTree:
        """See ``Drafter.propose``."""
        if limit > self._most:
            self._make_room(limit)
        count = self._propose(self._handle, limit, floor, *self._room)
        self._count_work(self._handle, self.work)
        self.check(count)
        if not count:
            return EMPTY
        ints = f"{count}i"
        return DraftTree(
            unpack_from(ints, self._tokens),
            unpack_from(ints, self._parents),
            unpack_from(f"{count}d", self._probs),
            (self._name,) * count,
        )

    def ahead(self, tokens: Sequence[int], limit: int) -> list[int]:
        """See ``Drafter.ahead``."""
        found = (ctypes.c_int32 * max(limit, 1))()
        count = self._core["ahead"](self._handle, _ints(tokens), len(tokens), limit, found)
        self._count_work(self._handle, self.work)
        self.check(count)
        return found[:count]

    def nbytes(self) -> int:
        """Return the bytes held beside a KV cache and weights."""
        return int(self._core["bytes"](self._handle))

    def check(self, outcome: int) -> None:
        """Raise the error of a call that returned ``outcome``, if it failed: that of the forward first."""
        for one in self._called:
            one.calls.raise_kept()
        if outcome < 0:
            raise error_of(-outcome)

    def _make_room(self, tokens: int) -> None:
        self._most = tokens
        self._tokens, self._parents = (ctypes.c_int32 * tokens)(), (ctypes.c_int32 * tokens)()
        self._probs = (c_double * tokens)()
        self._room = addressof(self._tokens), addressof(self._parents), addressof(self._probs)


def exit_handle(name: str, host: HostForward, layers: ExitLayers, trimmed: Handle | None) -> DrafterHandle:
    """Make a drafter with layers of its target."""
    given = _CExit(
        addressof(host.struct), trimmed and trimmed.handle, _doubts(), _ints(layers.ends), len(layers.ends),
        layers.table_bytes,
        layers.vocabulary, layers.layer_bytes, layers.head_bytes, layers.exit, layers.resume or 0,
        layers.last,
    )  # fmt: skip
    return DrafterHandle(name, _functions()["exit_new"](byref(given)), host)


def model_handle(
    name: str, host: HostForward, bridge: CallingHandle, sizes: ModelBytes, trimmed: Handle | None
) -> DrafterHandle:
    """Make a drafter with a smaller model."""
    given = _CModel(
        addressof(host.struct), bridge.handle, trimmed and trimmed.handle, _doubts(),
        sizes.weights, sizes.slot, sizes.table,
    )  # fmt: skip
    return DrafterHandle(name, _functions()["model_new"](byref(given)), host, bridge)


def _doubts() -> bytes | None:
    return pack("2d", *DOUBTS) if DOUBTS else None


def _ints(values: Collection[int]) -> bytes:
    return pack(f"{len(values)}i", *values)


@cache
def _functions() -> dict[str, Any]:
    return bind("edgedec_core_drafter_", _SIGNATURES)
