"""Speculation in the core (kernels/core/decode/speculation.h): its calls, and those that come back from it.

The core calls its own drafters itself. The ones of this process are called back, through one function that
says what is wanted of which drafter; ``CoreSpeculation`` has the arguments and takes the answers. Such a call
happens only inside one of ``CoreSpeculation``, in the same thread.
"""

from __future__ import annotations

import ctypes
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from enum import IntEnum
from struct import pack, unpack_from
from typing import Any, NamedTuple

import numpy as np

from edgedec.core.rows import HeadRows
from edgedec.core_lib.binding import INT, LONG, POINTER, REAL, Functions, address
from edgedec.core_lib.calls import Calls
from edgedec.core_lib.costs import Costs
from edgedec.core_lib.draft_room import ints

_CORE = Functions(
    "edgedec_core_speculation_",
    new=(POINTER, POINTER),
    destroy=(None, POINTER),
    call=(POINTER, POINTER),
    trust=(None, POINTER, INT),
    drop=(None, POINTER, INT),
    limit=(None, POINTER, INT),
    begin=(INT, POINTER, LONG, POINTER, LONG, LONG, POINTER),
    end=(INT, POINTER),
    tell=(INT, POINTER),
    draft=(INT, POINTER, INT),
    rows=(None, POINTER, LONG, LONG, POINTER, POINTER, POINTER, POINTER, REAL),
    note=(INT, POINTER, LONG, POINTER, LONG, POINTER),
    learned=(None, POINTER, INT, REAL),
    answer=(None, POINTER, LONG, POINTER, POINTER, POINTER, INT, LONG, LONG, LONG),
    permit=(None, POINTER, LONG, POINTER),
    judged=(INT, POINTER, INT, POINTER),
    tally=(LONG, POINTER, POINTER, LONG),
)
_Host, _Clock = ctypes.CFUNCTYPE(INT, INT, INT), ctypes.CFUNCTYPE(REAL)
_STEPS = 11
"""Of stated probabilities, as kernels/core/control/acceptance.h has them."""


class Wanted(IntEnum):
    """A call that comes back."""

    BEGIN = 0
    COMMIT = 1
    PROPOSE = 2
    OBSERVE = 3
    PERMIT = 4
    """Not of a drafter: which nodes of an answer may stay."""


class Outcome(IntEnum):
    """How such a call ended. After ``STOPPED`` no other one comes, and the outer call raises its error."""

    DONE = 0
    FAILED = 1
    """The drafter is gone."""
    STOPPED = 2


class Seat(NamedTuple):
    """A drafter: the handle of a table in the core, or one that is called back."""

    table: int | None = None
    peeks: bool = False
    every_round: bool = False
    observes: bool = False

    @property
    def traits(self) -> int:
        return self.peeks + 2 * self.every_round + 4 * self.observes


class Nodes(NamedTuple):
    """A draft. ``sources`` are places of drafters; the one behind the last is that of certain tokens."""

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    probs: tuple[float, ...]
    sources: tuple[int, ...]


NO_NODES = Nodes((), (), (), ())


class DraftWork(NamedTuple):
    """Work of a drafter's model for a draft."""

    bytes_read: int = 0
    passes: int = 0
    table_bytes: int = 0


class _Room(ctypes.Structure):
    _fields_ = [(name, POINTER) for name in ("tokens", "parents", "probs", "sources")]


class _Parts(ctypes.Structure):
    _fields_ = [
        ("drafters", LONG),
        ("tables", POINTER),
        ("traits", POINTER),
        ("costs", POINTER),
        ("limit", LONG),
        ("host", _Host),
        ("clock", POINTER),
        ("draft", _Room),
    ]


class _Call(ctypes.Structure):
    _fields_ = [
        ("limit", LONG),
        ("floor", REAL),
        ("count", LONG),
        ("tokens", POINTER),
        ("parents", POINTER),
        ("probs", POINTER),
        ("sources", POINTER),
        ("rows", LONG),
        ("columns", LONG),
        ("values", POINTER),
        ("ids", POINTER),
        ("logsumexp", POINTER),
        ("entropy", POINTER),
        ("temperature", REAL),
    ]


class CoreSpeculation:
    """A handle. ``called`` answers the calls that come back.

    What it raises comes out of the call in which it did.
    """

    def __init__(
        self,
        seats: Sequence[Seat],
        costs: Costs | None,
        limit: int,
        called: Callable[[int, int], Outcome],
        clock: Callable[[], float] | None,
    ) -> None:
        self._costs = costs
        self._calls = Calls()
        self._host = _Host(self._calls.keeping(called, Outcome.STOPPED))
        self._clock = _Clock(clock) if clock and clock is not time.perf_counter else None
        room = max(limit, 1)
        self._tokens, self._parents = (ctypes.c_int32 * room)(), (ctypes.c_int32 * room)()
        self._probs, self._sources = (ctypes.c_double * room)(), (ctypes.c_int32 * room)()
        tables = (ctypes.c_void_p * max(len(seats), 1))(*(seat.table for seat in seats))
        traits = (ctypes.c_int32 * max(len(seats), 1))(*(seat.traits for seat in seats))
        parts = _Parts(
            len(seats),
            ctypes.addressof(tables),
            ctypes.addressof(traits),
            costs.handle if costs else None,
            limit,
            self._host,
            self._clock_address(clock),
            _Room(
                ctypes.addressof(self._tokens),
                ctypes.addressof(self._parents),
                ctypes.addressof(self._probs),
                ctypes.addressof(self._sources),
            ),
        )
        self._count = len(seats)
        self.handle = handle = _CORE.new(ctypes.byref(parts))
        weakref.finalize(self, _CORE.destroy, handle)
        self._call = _Call.from_address(_CORE.call(handle))
        self._draft, self._rows = _CORE.draft, _CORE.rows

    def _clock_address(self, clock: Callable[[], float] | None) -> int | None:
        if self._clock:
            return ctypes.cast(self._clock, ctypes.c_void_p).value
        return address("edgedec_monotonic_s") if clock else None  # the clock that perf_counter reads

    def trust(self, drafter: int) -> None:
        """Trust a drafter as one that was pretrained; before the first sequence."""
        _CORE.trust(self.handle, drafter)

    def drop(self, drafter: int) -> None:
        """Go on without a drafter."""
        _CORE.drop(self.handle, drafter)

    def limit(self, tokens: int) -> None:
        """Lower the most tokens of a draft."""
        _CORE.limit(self.handle, tokens)

    def begin(self, tokens: Sequence[int], kept: int, stop_ids: Collection[int]) -> None:
        """Start a new sequence, which shares its first ``kept`` tokens with the one before."""
        count, stops = len(tokens), len(stop_ids)
        self.done(_CORE.begin(self.handle, count, ints(tokens), kept, stops, ints(stop_ids)))

    def end(self) -> bool:
        """The reply is over; returns whether costs drifted that are to be kept."""
        return bool(self.done(_CORE.end(self.handle)))

    def tell(self) -> None:
        """Tell drafters what they have not heard yet."""
        self.done(_CORE.tell(self.handle))

    def draft(self, room: int) -> Nodes:
        """Begin a round, and return its draft."""
        count = self._draft(self.handle, room)
        return self._nodes(count) if count else NO_NODES

    def note(self, chain: Sequence[int], rows: HeadRows, tokens: Sequence[int]) -> None:
        """Note that ``rows`` answered ``chain``, and that ``tokens`` were committed."""
        self._take(rows)
        drafted, count = len(chain), len(tokens)
        self.done(_CORE.note(self.handle, drafted, ints(chain), count, ints(tokens)))

    def learned(self, drafter: int, seconds: float) -> None:
        """Note that a drafter took ``seconds`` to learn while the core had not called it."""
        _CORE.learned(self.handle, drafter, seconds)

    def judged(self, source: int) -> list[list[int]]:
        """Return the tokens that were judged, and those that were right, by steps of their probability."""
        counts = (ctypes.c_int64 * (2 * _STEPS))()
        steps = _CORE.judged(self.handle, source, counts)
        return [list(counts[2 * step : 2 * step + 2]) for step in range(steps)]

    def tally(self) -> list[float]:
        """Return the numbers of the tally; ``control.tally`` knows their order."""
        count = _CORE.tally(self.handle, None, 0)
        numbers = (ctypes.c_double * count)()
        _CORE.tally(self.handle, numbers, count)
        return list(numbers)

    def done(self, outcome: int) -> int:
        """Return the result of a call, or raise why it was stopped."""
        if outcome < 0:
            self._calls.raise_kept()
        return outcome

    # What calls that come back ask and answer.

    def wanted_tokens(self) -> list[int]:
        """Return the tokens of ``COMMIT``."""
        count = self._call.count
        return list(unpack_from(f"{count}i", ctypes.string_at(self._call.tokens, 4 * count)))

    def wanted_draft(self) -> tuple[int, float]:
        """Return the limit and the floor of ``PROPOSE``."""
        return self._call.limit, self._call.floor

    def shown(self) -> Nodes:
        """Return the draft of ``OBSERVE`` or ``PERMIT``."""
        call = self._call
        if not (count := call.count):
            return NO_NODES
        ints = f"{count}i"
        return Nodes(
            unpack_from(ints, ctypes.string_at(call.tokens, 4 * count)),
            unpack_from(ints, ctypes.string_at(call.parents, 4 * count)),
            unpack_from(f"{count}d", ctypes.string_at(call.probs, 8 * count)),
            unpack_from(ints, ctypes.string_at(call.sources, 4 * count)),
        )

    def shown_rows(self) -> HeadRows:
        """Return the rows of ``OBSERVE``."""
        call = self._call
        count, columns = call.rows, call.columns
        shape = count, columns
        return HeadRows(
            _array(call.values, shape, np.float32),
            _array(call.ids, shape, np.int32),
            _array(call.logsumexp, (count,), np.float32),
            _array(call.entropy, (count,), np.float32),
            temperature=call.temperature,
        )

    def answer(
        self,
        tokens: Sequence[int],
        parents: Sequence[int],
        probs: Sequence[float],
        peeked: int,
        work: DraftWork,
    ) -> None:
        """Answer ``PROPOSE``. Raises struct.error for numbers that are none of a draft."""
        count = len(tokens)
        drafted = ints(tokens), ints(parents), pack(f"{count}d", *probs)
        _CORE.answer(self.handle, count, *drafted, peeked, *work)

    def permit(self, nodes: Sequence[int]) -> None:
        """Answer ``PERMIT``: the nodes that stay, which ascend and have their parents among them."""
        _CORE.permit(self.handle, len(nodes), ints(nodes))

    def _take(self, rows: HeadRows) -> None:
        count, columns = rows.ids.shape
        # To copy an array costs a fraction of finding out its address.
        values, ids = rows.values.tobytes(), rows.ids.tobytes()
        logsumexp, entropy = rows.logsumexp.tobytes(), rows.entropy.tobytes()
        if not len(values) == len(ids) == columns * len(logsumexp) == 4 * count * columns:
            raise ValueError("rows of other shapes or types than HeadRows says")
        if len(entropy) != len(logsumexp):
            raise ValueError("rows of other shapes or types than HeadRows says")
        self._rows(self.handle, count, columns, values, ids, logsumexp, entropy, rows.temperature)

    def _nodes(self, count: int) -> Nodes:
        self.done(count)
        ints = f"{count}i"
        return Nodes(
            unpack_from(ints, self._tokens),
            unpack_from(ints, self._parents),
            unpack_from(f"{count}d", self._probs),
            unpack_from(ints, self._sources),
        )


def _array(data: int, shape: tuple[int, ...], kind: type[np.generic]) -> Any:
    size = 4 * int(np.prod(shape))
    return np.frombuffer(ctypes.string_at(data, size), kind).reshape(shape) if size else np.empty(shape, kind)
