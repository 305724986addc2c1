"""One reply: how its tokens are drawn, verified and ended."""

from __future__ import annotations

import ctypes
import weakref
from array import array
from collections.abc import Collection, Sequence
from ctypes import PYFUNCTYPE, byref, c_double, c_int, c_int32, c_int64, c_void_p
from struct import pack
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import HeadRows
from edgedec.core.tree import DraftTree
from edgedec.core_lib.calls import Calls
from edgedec.core_lib.library import error_of, function
from edgedec.core_lib.params import head_struct, params_struct
from edgedec.sampling import DrawParams

STOPPED, FULL = 1, 2
"""Why a token ends a reply: a stop id or the grammar; the end of the sequence."""


class Verified(NamedTuple):
    """The verdict on a draft."""

    path: tuple[int, ...]
    """Accepted nodes from the root down."""
    tokens: tuple[int, ...]
    """Their tokens, and the one that the target adds itself."""
    bounds: tuple[float, ...] | None
    """Mirostat's state behind each token; None without it."""
    end: int
    """``STOPPED`` or ``FULL`` where the last token ends the reply, else 0."""


class ReplyGrammar(Protocol):
    """The grammar of a reply, at a place of it. The methods may raise."""

    def follow(self, tokens: Sequence[int]) -> bool:
        """Go to behind ``tokens``, which follow the committed ones and may be taken back.

        They begin with those of the call before, or are some of these. Returns whether nothing may come next.
        """
        ...

    def forced(self) -> int | None:
        """Return the only token that may come next; None where there is a choice."""
        ...

    def permits(self, token: int) -> bool:
        """Whether ``token`` may come next; cheaper than ``bits``."""
        ...

    def bits(self) -> NDArray[np.uint8]:
        """Return a bit for each token, that of id 0 the lowest of the first byte; 1: it may come next."""
        ...


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


class ReplyHandle:
    """The settings of one reply, and what its draws read of the tokens so far."""

    def __init__(
        self,
        params: DrawParams,
        spec: ModelSpec,
        start: ReplyStart,
        grammar: ReplyGrammar | None = None,
    ) -> None:
        self._calls = _Grammar(grammar, spec.vocab_size) if grammar else None
        begun = byref(c_double(start.bound)) if start.bound is not None else None
        tokens = array("i", start.tokens if params.adjusts else ())  # no other settings read them
        stops = array("i", start.stop_ids)
        self._handle = function("reply_new")(
            byref(params_struct(params)), spec.vocab_size, spec.head_k, tokens.tobytes(), len(tokens),
            start.said, begun, start.end, stops.tobytes(), len(stops),
            byref(self._calls.struct) if self._calls else None,
        )  # fmt: skip
        if not self._handle:
            raise error_of(2)
        weakref.finalize(self, function("reply_free"), self._handle)
        self._verify, self._commit = function("reply_verify"), function("reply_commit")
        self._bounded = params.mirostat > 0.0 and not params.greedy
        self._most = 0
        self._make_room(16)

    def verify(self, tree: DraftTree, head: HeadRows, position: int) -> Verified:
        """Verify ``tree``: the tokens to commit from ``position`` on, none behind the end.

        ``head`` row i + 1 answers node i, row 0 the last committed token. Raises BackendError when logits are
        not numbers, or when they were needed and are not there; UsageError when logit bias and grammar leave
        no token; the grammar's errors.
        """
        nodes = len(tree.tokens)
        if nodes >= self._most:
            self._make_room(2 * nodes)
        tokens = parents = None
        if nodes:
            ints = f"{nodes}i"
            tokens, parents = pack(ints, *tree.tokens), pack(ints, *tree.parents)
        count = self._verify(
            self._handle, byref(head_struct(head)), nodes, tokens, parents, position, *self._room
        )
        if self._calls:
            self._calls.raise_kept()
        if count < 0:
            raise error_of(-count)
        accepted, end = self._ends
        bounds = tuple(self._bounds[:count]) if self._bounded else None
        return Verified(tuple(self._path[:accepted]), tuple(self._tokens[:count]), bounds, end)

    def commit(self, token: int, bound: float | None = None) -> None:
        """Note a committed token, and mirostat's state behind it."""
        self._commit(self._handle, token, bound or 0.0)

    @property
    def drawn_bytes(self) -> int:
        """Most bytes that the lists of its draws have held."""
        return int(function("reply_bytes")(self._handle))

    def _make_room(self, nodes: int) -> None:
        self._most = nodes
        self._tokens, self._path = (c_int32 * nodes)(), (c_int32 * nodes)()
        self._bounds, self._ends = (c_double * nodes)(), (c_int32 * 2)()
        room = self._tokens, self._path, self._bounds, self._ends
        self._room = tuple(ctypes.addressof(one) for one in room)


class _Grammar(Calls):
    """The functions of a grammar for the core."""

    def __init__(self, grammar: ReplyGrammar, vocabulary: int) -> None:
        super().__init__()
        self._grammar, self._vocabulary = grammar, vocabulary
        self._mask: NDArray[np.uint8] | None = None
        """The latest one; it stays until the next."""
        self.struct = CGrammar(
            _FOLLOW(self.keeping(self._follow, -1)), _FORCED(self.keeping(self._forced, -2)),
            _PERMITS(self.keeping(grammar.permits, 0)), _BITS(self.keeping(self._bits, None)),
        )  # fmt: skip

    def _follow(self, tokens: int, count: int) -> bool:
        return self._grammar.follow((c_int32 * count).from_address(tokens)[:] if count else [])

    def _forced(self) -> int:
        forced = self._grammar.forced()
        return -1 if forced is None else forced

    def _bits(self) -> int:
        self._mask = mask = np.ascontiguousarray(self._grammar.bits(), np.uint8)
        if 8 * mask.size < self._vocabulary:
            raise ValueError(f"a mask of {8 * mask.size} bits for {self._vocabulary} tokens")
        return mask.ctypes.data


_FOLLOW = PYFUNCTYPE(c_int, c_void_p, c_int64)
_FORCED = PYFUNCTYPE(c_int)
_PERMITS = PYFUNCTYPE(c_int, c_int32)
_BITS = PYFUNCTYPE(c_void_p)


class CGrammar(ctypes.Structure):
    """A ``edgedec_core_grammar``."""

    _fields_ = (("follow", _FOLLOW), ("forced", _FORCED), ("permits", _PERMITS), ("bits", _BITS))
