"""A forward of Python's as drafters of the core call it: kernels/core/api/host_forward.h."""

from __future__ import annotations

import ctypes
from ctypes import PYFUNCTYPE, Structure, addressof, c_double, c_int, c_int64, c_void_p
from typing import Protocol

from edgedec.core.forward import Forward
from edgedec.core.rows import ALL_ROWS, LAST_ROW, HeadRows, Keep, Rows
from edgedec.core_lib.binding import ints_at
from edgedec.core_lib.calls import CalledBack, Calls
from edgedec.core_lib.params import CHead, head_struct
from edgedec.core_lib.turns import ALONE, Turns

_FAILED = 1
_ROWS = (LAST_ROW, ALL_ROWS, Rows(indices=()))
"""By ``edgedec_core_rows``."""
_LENGTH, _REACHABLE, _REWIND = PYFUNCTYPE(c_int64), PYFUNCTYPE(c_int64, c_int64), PYFUNCTYPE(c_int, c_int64)
_KEEP = PYFUNCTYPE(c_int, c_void_p, c_int64)
_EXTEND = PYFUNCTYPE(c_int, c_void_p, c_int64, c_void_p, c_int, c_int, c_void_p)
_PEEK = PYFUNCTYPE(c_int, c_void_p, c_int64, c_int, c_int, c_int, c_void_p)


class Trimmed(Protocol):
    """A head that may compute some ids only."""

    @property
    def keep(self) -> Keep | None:
        """The ids that it computes now, in the same array as long as they are the same; None: all."""


class CForward(Structure):
    """A ``edgedec_core_forward``."""

    _fields_ = (
        ("capacity", c_int64),
        ("max_pass", c_int64),
        ("most_undone", c_int64),
        ("trees", c_int),
        ("share", c_void_p),
        ("length", _LENGTH),
        ("reachable", _REACHABLE),
        ("peeked", _LENGTH),
        ("rewind", _REWIND),
        ("keep_path", _KEEP),
        ("extend", _EXTEND),
        ("peek", _PEEK),
    )


class HostForward(CalledBack):
    """The calls of ``forward``, whose head is trimmed as ``trimmed`` says when a drafter trims it.

    ``turns``: those on a model that drafts for several conversations.
    """

    def __init__(self, forward: Forward, trimmed: Trimmed | None = None, turns: Turns = ALONE) -> None:
        acts = _Acts(forward, trimmed, turns)
        # The functions hold ``acts`` and not this: so a forward is free as soon as its drafter is.
        self.calls = calls = acts.calls
        self.struct = CForward(
            forward.capacity,
            forward.caps.max_pass,
            forward.caps.most_undone,
            forward.caps.trees,
            addressof(acts.share),
            _LENGTH(calls.keeping(acts.length, 0)),
            _REACHABLE(calls.keeping(forward.reachable, 0)),
            _LENGTH(calls.keeping(acts.peeked, 0)),
            _REWIND(calls.keeping(acts.rewind, _FAILED)),
            _KEEP(calls.keeping(acts.keep_path, _FAILED)),
            _EXTEND(calls.keeping(acts.extend, _FAILED)),
            _PEEK(calls.keeping(acts.peek, _FAILED)),
        )


class _Acts:
    def __init__(self, forward: Forward, trimmed: Trimmed | None, turns: Turns) -> None:
        self.calls, self.share = Calls(), c_double(turns.share)
        self._forward, self._trimmed, self._turns = forward, trimmed, turns
        self._rows = _ROWS
        """Those that are asked for now: over the kept ids, if the head is trimmed."""
        self._answer: CHead | None = None

    def length(self) -> int:
        return self._forward.length

    def peeked(self) -> int:
        peeking = self._forward.peeking
        return len(peeking.peeked) if peeking else 0

    def rewind(self, length: int) -> int:
        self._forward.rewind(length)
        return 0

    def keep_path(self, nodes: int, count: int) -> int:
        self._forward.keep_path(ints_at(nodes, count))
        return 0

    def extend(self, tokens: int, count: int, parents: int | None, rows: int, trimmed: int, head: int) -> int:
        above, wanted = ints_at(parents, count) if parents else None, self._wanted(rows, trimmed)
        with self._turns.passing():
            found = self._forward.extend(ints_at(tokens, count), parents=above, rows=wanted)
        self.share.value = self._turns.share
        return self._fill(head, found)

    def peek(self, tokens: int, count: int, exit: int, resume: int, trimmed: int, head: int) -> int:
        peeking = self._forward.peeking
        assert peeking is not None, "a drafter of this kind is for forwards with exits"
        rows = self._wanted(0, trimmed)
        found = peeking.peek(ints_at(tokens, count), exit=exit, resume=resume or None, rows=rows)
        return self._fill(head, found)

    def _wanted(self, rows: int, trimmed: int) -> Rows:
        keep = self._trimmed.keep if trimmed and self._trimmed else None
        if keep is None:
            return _ROWS[rows]
        if self._rows[0].keep is not keep:
            self._rows = Rows(last=True, keep=keep), Rows(keep=keep), _ROWS[2]
        return self._rows[rows]

    def _fill(self, head: int, found: HeadRows) -> int:
        self._answer = answer = head_struct(found)  # stays until the next one
        ctypes.memmove(head, ctypes.byref(answer), ctypes.sizeof(answer))
        return 0
