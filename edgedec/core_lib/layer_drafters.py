"""Layers and assistants of Python's as drafters of the core call them: kernels/core/api/layer_drafters.cc."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import (
    POINTER,
    PYFUNCTYPE,
    Structure,
    addressof,
    byref,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_void_p,
)
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import FloatArray, HeadRows
from edgedec.core_lib.binding import INT, LONG, Functions, ints_at
from edgedec.core_lib.binding import POINTER as ADDRESS
from edgedec.core_lib.calls import CalledBack, Calls
from edgedec.core_lib.params import CHead, head_struct

_CORE = Functions(
    "edgedec_core_drafter_",
    layer_limits=(None, ADDRESS, ADDRESS),
    head_new=(ADDRESS, ADDRESS, ADDRESS, LONG),
    mtp_new=(ADDRESS, ADDRESS, INT, ADDRESS),
    assistant_new=(ADDRESS, ADDRESS, INT),
)


@dataclass(frozen=True, slots=True)
class HeadPass:
    """The results of a pass over n tokens: the rows asked for, and ``out`` f32[n, d].

    ``out`` are the states of the next drafted tokens.
    """

    rows: HeadRows
    out: FloatArray


class DraftLayerSizes(NamedTuple):
    """Sizes of a layer, and the bytes that its passes read: see kernels/core/draft/layer_forward.h."""

    width: int
    hidden: int
    capacity: int
    longest: int
    always: int = 0
    committed: int = 0
    head: int = 0
    experts: int = 0
    slot: int = 0
    table: int = 0
    ids: int = 1
    expert_count: int = 0
    expert_chosen: int = 0


class AssistantStepSizes(NamedTuple):
    """Numbers of a state, bytes of weights that a step reads, and of each cache that it reads the bytes of a
    slot and the most slots.
    """

    hidden: int
    weights: int
    caches: tuple[tuple[int, int], ...]


class _CFound(Structure):
    _fields_ = (("head", CHead), ("states", c_void_p))


class _CPass(Structure):
    _fields_ = (
        ("tokens", c_void_p),
        ("count", c_int64),
        ("committed", c_int64),
        ("rows_count", c_int64),
        ("taps", c_void_p),
        ("states", c_void_p),
        ("parents", c_void_p),
        ("rows", c_void_p),
        ("trimmed", c_int),
    )


_STEP, _REWIND = PYFUNCTYPE(c_int, POINTER(_CFound)), PYFUNCTYPE(c_int, c_int64)
_LOOK = PYFUNCTYPE(c_int, POINTER(c_int64), POINTER(c_int64))
_ASSIST = PYFUNCTYPE(c_int, c_int32, c_int64, c_int64, c_int, c_void_p, POINTER(_CFound))


class _CLayer(Structure):
    _fields_ = (("sizes", c_void_p), ("asked", c_void_p), ("step", _STEP), ("rewind", _REWIND))


class _CAssistant(Structure):
    _fields_ = (
        ("hidden", c_int64),
        ("weights", c_int64),
        ("slot", c_int64 * 2),
        ("most", c_int64 * 2),
        ("look", _LOOK),
        ("step", _ASSIST),
    )


class HostLayer(CalledBack):
    """A layer of Python's: ``step`` and ``rewind`` are those of ``backends.onnx.layer_forward``.

    ``trim`` says before each pass whether the head computes the ids that the drafter's trimmed head keeps.
    """

    def __init__(
        self,
        sizes: DraftLayerSizes,
        step: Callable[..., HeadPass],
        rewind: Callable[[int], None],
        trim: Callable[[bool], None] | None = None,
    ) -> None:
        self.calls = Calls()
        acts = _LayerActs(sizes, step, rewind, trim)
        self._sizes = (c_int64 * len(sizes))(*sizes)
        functions = _STEP(self.calls.keeping(acts.step, 1)), _REWIND(self.calls.keeping(acts.rewind, 1))
        self.struct = _CLayer(addressof(self._sizes), addressof(acts.asked), *functions)


class HostAssistant(CalledBack):
    """Steps of an assistant of Python's: ``step`` is that of ``backends.onnx.assistant_forward``.

    ``look`` returns the tokens that the target's cache has, and the slots that they take.
    """

    def __init__(
        self,
        sizes: AssistantStepSizes,
        step: Callable[..., HeadPass],
        look: Callable[[], tuple[int, int]],
    ) -> None:
        self.calls = Calls()
        acts = _AssistantActs(sizes.hidden, step, look)
        caches = [*sizes.caches, (0, 0)][:2]
        self.struct = _CAssistant(
            sizes.hidden,
            sizes.weights,
            (c_int64 * 2)(*(slot for slot, _ in caches)),
            (c_int64 * 2)(*(most for _, most in caches)),
            _LOOK(self.calls.keeping(acts.look, 1)),
            _ASSIST(self.calls.keeping(acts.step, 1)),
        )


class _LayerActs:
    def __init__(
        self,
        sizes: DraftLayerSizes,
        step: Callable[..., HeadPass],
        rewind: Callable[[int], None],
        trim: Callable[[bool], None] | None,
    ) -> None:
        self._step, self._rewind, self._trim = step, rewind, trim
        self._width, self._hidden = sizes.width, sizes.hidden
        self.asked = _CPass()
        self._answer: object = None

    def step(self, found: Any) -> int:
        asked = self.asked
        count, committed, rows = asked.count, asked.committed, asked.rows_count
        if self._trim:
            self._trim(bool(asked.trimmed))
        result = self._step(
            ints_at(asked.tokens, count),
            taps=_floats(asked.taps, committed, self._width),
            states=_floats(asked.states, count - committed, self._hidden),
            parents=ints_at(asked.parents, count) if asked.parents else None,
            rows=ints_at(asked.rows, rows),
        )
        self._answer = _fill(found, result)  # stays until the next one
        return 0

    def rewind(self, length: int) -> int:
        self._rewind(length)
        return 0


class _AssistantActs:
    def __init__(
        self, hidden: int, step: Callable[..., HeadPass], look: Callable[[], tuple[int, int]]
    ) -> None:
        self._hidden, self._step, self._look = hidden, step, look
        self._answer: object = None

    def look(self, length: Any, slots: Any) -> int:
        length[0], slots[0] = self._look()
        return 0

    def step(self, token: int, position: int, slots: int, first: int, given: int, found: Any) -> int:
        state = _floats(given, 1, self._hidden)
        assert state is not None
        named = {"tap" if first else "state": state[0]}
        self._answer = _fill(found, self._step(token, position=position, slots=slots, **named))
        return 0


@cache
def layer_limits() -> tuple[int, int]:
    """Return the most tokens whose hidden states wait for a layer, and the most drafted ones of a pass."""
    waiting, fed = c_int64(), c_int64()
    _CORE.layer_limits(byref(waiting), byref(fed))
    return waiting.value, fed.value


def head_handle(host: HostLayer, taps: Sequence[int]) -> int:
    """Make a drafter with a trained head over the outputs of the layers ``taps``."""
    layers = (c_int32 * len(taps))(*taps)
    return int(_CORE.head_new(byref(host.struct), layers, len(taps)))


def mtp_handle(host: HostLayer, tap: int, trimmed: int | None) -> int:
    """Make a drafter with an MTP layer. ``trimmed``: the handle of a trimmed head."""
    return int(_CORE.mtp_new(byref(host.struct), tap, trimmed))


def assistant_handle(host: HostAssistant, tap: int) -> int:
    """Make a drafter with an assistant."""
    return int(_CORE.assistant_new(byref(host.struct), tap))


def _fill(found: Any, result: HeadPass) -> object:
    head, out = head_struct(result.rows), np.ascontiguousarray(result.out, np.float32)
    to = found[0]
    ctypes.memmove(addressof(to), byref(head), ctypes.sizeof(head))
    to.states = out.ctypes.data
    return head, out


def _floats(address: int, count: int, columns: int) -> FloatArray | None:
    if not count:
        return None
    numbers = (c_float * (count * columns)).from_address(address)
    return np.ctypeslib.as_array(numbers).reshape(count, columns)
