"""The decoding loop of the core (kernels/core/decode/engine.h): it plans, verifies and settles rounds."""

from __future__ import annotations

import ctypes
import weakref
from array import array
from collections.abc import Callable, Collection, Sequence
from ctypes import PYFUNCTYPE, Structure, addressof, byref, c_double, c_int32, c_int64, c_void_p
from typing import NamedTuple

from edgedec.core.experts import StoreCounts
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import HeadRows
from edgedec.core_lib.costs import reads_of
from edgedec.core_lib.grammar import GrammarCalls, ReplyGrammar
from edgedec.core_lib.library import error_of, function
from edgedec.core_lib.params import head_struct, params_struct
from edgedec.core_lib.speculation import CoreSpeculation
from edgedec.sampling import DrawParams

_NO_READS = reads_of(None)
STOPPED, FULL = 1, 2
"""Why a token ends a reply: a stop id or the grammar; the end of the sequence."""


class Planned(NamedTuple):
    """A pass. No ``parents``: a chain. The first ``waiting`` tokens are committed, those behind are drafted.

    ``piece``: it reads a part of what the cache lacks, and needs no rows.
    """

    tokens: list[int]
    parents: list[int] | None
    waiting: int
    piece: bool


class Verified(NamedTuple):
    """The verdict on a draft."""

    path: list[int]
    """Accepted nodes from the root down."""
    tokens: list[int]
    """Their tokens, and the one that the target adds itself."""
    writers: list[int]
    """Places of the drafters of these tokens; -1: the target."""
    bounds: list[float] | None
    """Mirostat's state behind each token; None without it."""
    end: int
    """``STOPPED`` or ``FULL`` where the last token ends the reply, else 0."""


@dataclass(frozen=True, slots=True)
class ReplyStart:
    """Where a reply begins: ``tokens`` are all before it, the last ``said`` of them are of the reply itself.

    ``end``: most tokens of the whole sequence. ``bound`` is mirostat's state behind what is said; None: as a
    reply begins. ``stop_ids``: tokens that end it.
    """

    end: int
    tokens: Sequence[int] = ()
    said: int = 0
    bound: float | None = None
    stop_ids: Collection[int] = ()


class CoreEngine:
    """A handle. The host runs the passes that it plans; its cache keeps what a verdict accepts.

    ``peeked``: returns the tokens that the model peeked since its cache last changed. ``limit``: most tokens
    of a draft.
    """

    def __init__(
        self,
        spec: ModelSpec,
        speculation: CoreSpeculation | None = None,
        limit: int = 0,
        peeked: Callable[[], Sequence[int]] | None = None,
    ) -> None:
        self._speculation = speculation  # the handle refers to it
        self._calls: GrammarCalls | None = None
        self._peeked = _PEEKED(_peeking(peeked)) if peeked else _PEEKED()
        self._make_room(function("longest_pass")() + limit + 1)
        self.spec = spec
        held = speculation.handle if speculation else None
        parts = _CParts(spec.vocab_size, spec.head_k, held, self._peeked, addressof(self._round))
        self._handle = function("engine_new")(byref(parts))
        weakref.finalize(self, function("engine_free"), self._handle)
        self._plan, self._verify = function("engine_plan"), function("engine_verify")
        self._settle = function("engine_settle")
        self._bounded = False

    def begin(self, params: DrawParams, start: ReplyStart, grammar: ReplyGrammar | None = None) -> None:
        """Begin a reply; cache and drafters have begun."""
        self._calls = GrammarCalls(grammar, self.spec.vocab_size) if grammar else None
        begun = byref(c_double(start.bound)) if start.bound is not None else None
        tokens, stops = array("i", start.tokens), array("i", start.stop_ids)
        code = function("engine_begin")(
            self._handle, byref(params_struct(params)), tokens.tobytes(), len(tokens), start.said, begun,
            start.end, stops.tobytes(), len(stops), byref(self._calls.struct) if self._calls else None,
        )  # fmt: skip
        if code:
            raise error_of(-code)
        self._bounded = params.mirostat > 0.0 and not params.greedy

    def plan(self, length: int, most: int, undone: int = 0) -> Planned:
        """Plan the next pass behind the ``length`` tokens of the cache.

        It has at most ``most`` tokens, and with a draft at most ``undone``; 0: no other bound. Raises what a
        drafter raised that is no failure of it, and the grammar's errors.
        """
        count = self._plan(self._handle, length, most, undone)
        if count <= 0:
            self._raise(count)
        found = self._round
        waiting = found.waiting
        parents = self._parents[:count] if count > waiting else None
        return Planned(self._tokens[:count], parents, waiting, bool(found.piece))

    def verify(self, head: HeadRows) -> Verified:
        """Verify the draft of the planned pass: row i + 1 answers node i, row 0 the last committed token.

        None of the tokens is behind the end. Raises BackendError when logits are not numbers, or when they
        were needed and are not there; UsageError when logit bias and grammar leave no token; the grammar's
        errors.
        """
        self._head = rows = head.in_core or byref(head_struct(head))  # read again by settle
        return self._verdict(self._verify(self._handle, rows))

    def finish(self, head: HeadRows, seconds: float | None, read: StoreCounts | None) -> Verified:
        """Verify and settle a pass without a draft: the cache has nothing to keep in between."""
        time, reads = -1.0 if seconds is None else seconds, _NO_READS if read is None else reads_of(read)
        rows = head.in_core or byref(head_struct(head))
        return self._verdict(self._settle(self._handle, rows, time, *reads))

    def _verdict(self, count: int) -> Verified:
        """Return the verdict that the core wrote, of so many tokens. Raises what failed instead."""
        if count <= 0 or self._calls:
            self._raise(count)
        found = self._round
        bounds = self._bounds[:count] if self._bounded else None
        return Verified(
            self._path[: found.accepted], self._said[:count], self._writers[:count], bounds, found.end
        )

    def settle(self, seconds: float | None, read: StoreCounts | None) -> None:
        """Commit the verdict, and learn from the round. Raises as ``plan`` does."""
        time, reads = -1.0 if seconds is None else seconds, _NO_READS if read is None else reads_of(read)
        code = self._settle(self._handle, None, time, *reads)
        del self._head
        if code:
            self._raise(code)

    def drafted(self) -> tuple[list[float], list[int]]:
        """Return the probabilities of the settled draft, and the places of its drafters."""
        count = function("engine_draft")(self._handle, self._probs, self._sources)
        return self._probs[:count], self._sources[:count]

    def _raise(self, code: int) -> None:
        """Raise what failed in a call of the core, if anything did."""
        if self._calls:
            self._calls.raise_kept()
        if self._speculation:
            self._speculation.done(code)
        if code <= 0:
            raise error_of(-code)

    def _make_room(self, most: int) -> None:
        self._tokens, self._parents, self._said, self._writers, self._path, self._sources = (
            (c_int32 * most)() for _ in range(6)
        )
        self._bounds, self._probs = (c_double * most)(), (c_double * most)()
        arrays = self._tokens, self._parents, self._said, self._writers, self._path, self._bounds
        self._round = _CRound(*(addressof(one) for one in arrays))


def _peeking(peeked: Callable[[], Sequence[int]]) -> Callable[[int, int], int]:
    def call(tokens: int, most: int) -> int:
        found = peeked()[:most]
        ctypes.memmove(tokens, array("i", found).tobytes(), 4 * len(found))
        return len(found)

    return call


_PEEKED = PYFUNCTYPE(c_int64, c_void_p, c_int64)


class _CRound(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("tokens", "parents", "said", "writers", "path", "bounds")),
        *((name, c_int32) for name in ("piece", "waiting", "accepted", "end")),
    )


class _CParts(Structure):
    _fields_ = (
        ("vocabulary", c_int64),
        ("head_k", c_int64),
        ("speculation", c_void_p),
        ("peeked", _PEEKED),
        ("round", c_void_p),
    )
