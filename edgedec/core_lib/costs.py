"""Costs of passes, by which drafts are planned: handles of those that the core has (kernels/core/control)."""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Mapping
from struct import pack

from edgedec.core.experts import Experts, StoreCounts
from edgedec.core_lib.binding import INT, LONG, POINTER, REAL, Functions

_COSTS = Functions(
    "edgedec_core_costs_",
    curve=(POINTER, LONG, POINTER, POINTER, INT),
    streamed=(POINTER, POINTER, LONG, LONG, LONG, LONG, REAL),
    energy=(POINTER, POINTER, LONG, POINTER, POINTER),
    destroy=(None, POINTER),
    longest=(INT, POINTER),
    plain=(REAL, POINTER),
    seconds=(REAL, POINTER, INT),
    price=(REAL, POINTER, REAL, INT),
    expected=(REAL, POINTER, INT, REAL, REAL, REAL),
    least_slope=(REAL, POINTER, INT),
    observe=(INT, POINTER, INT, REAL, INT),
    doubt_level=(INT, POINTER),
    plain_is_unclear=(INT, POINTER),
    level_is_old=(INT, POINTER),
    drift=(REAL, POINTER),
    measured=(LONG, POINTER, LONG, POINTER, POINTER),
)
_BATCH = Functions(
    "edgedec_core_",
    batch=(POINTER, POINTER, LONG),
    batch_destroy=(None, POINTER),
    batch_view=(POINTER, POINTER, LONG),
    batch_passed=(None, POINTER, LONG, POINTER, POINTER, REAL, REAL, REAL),
)
_NO_READS = -1.0, 0.0


def reads_of(read: StoreCounts | None) -> tuple[float, float]:
    """Return reads as the core takes them: experts that were not in memory, and seconds of waiting."""
    return (float(read.held - read.hits), read.waited_s) if read else _NO_READS


def _points(values: Mapping[int, float]) -> tuple[int, bytes, bytes]:
    tokens = sorted(values)
    count = len(tokens)
    return count, pack(f"{count}i", *tokens), pack(f"{count}d", *(values[token] for token in tokens))


class Costs:
    """Costs of passes over 1 to ``longest`` tokens, in seconds or joules."""

    def __init__(self, handle: int, *, needs: object = None) -> None:
        """``needs``: what has to live as long."""
        self.handle = handle
        self._needs = needs
        self.longest: int = _COSTS.longest(handle)

    @property
    def plain(self) -> float:
        """The cost of a pass over one token without drafts."""
        return float(_COSTS.plain(self.handle))

    def seconds(self, tokens: int) -> float:
        """The cost of a pass over 1 to ``longest`` tokens. Raises ValueError outside."""
        if not 1 <= tokens <= self.longest:
            raise ValueError(f"a pass over {tokens} tokens is outside 1 to {self.longest}")
        return float(_COSTS.seconds(self.handle, tokens))

    def price(self, seconds: float, tokens: int = 1) -> float:
        """The cost of ``seconds`` of drafting, or of a pass over ``tokens``."""
        return float(_COSTS.price(self.handle, seconds, tokens))

    def expected(self, tokens: int, seconds: float, read: StoreCounts | None) -> float:
        """Return the seconds that count of a pass which took ``seconds`` and ``read`` experts: of its waits,
        those to expect.
        """
        return float(_COSTS.expected(self.handle, tokens, seconds, *reads_of(read)))

    def least_slope(self, more: int) -> float:
        """The cost per token beside the first, of the pass over at most 1 + ``more`` tokens where they are
        cheapest; 0 if there is no such pass.
        """
        return float(_COSTS.least_slope(self.handle, more))

    def observe(self, tokens: int, cost: float, *, plain: bool = False) -> bool:
        """Record what a pass over ``tokens`` cost.

        Returns False for one that does not count. ``plain``: the pass of a batch without drafts; like a pass
        over one token it measures the speed of the machine, not the cost of more tokens.
        """
        return bool(_COSTS.observe(self.handle, tokens, cost, plain))

    @property
    def plain_is_unclear(self) -> bool:
        """Whether a pass over one token should be measured again first."""
        return bool(_COSTS.plain_is_unclear(self.handle))

    @property
    def level_is_old(self) -> bool:
        """Whether passes are awaited that show how quick the machine is now."""
        return bool(_COSTS.level_is_old(self.handle))

    def doubt_level(self) -> bool:
        """Take the level from the next passes; returns whether they will be plain ones."""
        return bool(_COSTS.doubt_level(self.handle))

    @property
    def drift(self) -> float:
        """Largest relative distance from the initial costs: 0.15 is 15 % at some number of tokens."""
        return float(_COSTS.drift(self.handle))

    def measured(self) -> dict[int, float]:
        """Seconds of passes as they are now, to make a curve with."""
        count = _COSTS.measured(self.handle, 0, None, None)
        tokens, seconds = (ctypes.c_int32 * count)(), (ctypes.c_double * count)()
        _COSTS.measured(self.handle, count, tokens, seconds)
        return dict(zip(tokens, seconds, strict=True))

    def _owned(self) -> None:
        weakref.finalize(self, _COSTS.destroy, self.handle)


class CostCurve(Costs):
    """Times of passes over 1 to ``longest`` tokens; between measured numbers of tokens, straight lines.

    ``measured`` maps tokens to seconds, and must have 1 and ``longest``. Costs never fall with more tokens.
    Later observations move all of the curve (a machine that slows down) and its shape near that number of
    tokens (a context that grows); a pass over one token moves all of it alike.

    ``old``: measured at another time, perhaps under another load. Only the shape counts then. The level is
    that of the first observations, over however many tokens.
    """

    def __init__(self, measured: Mapping[int, float], *, old: bool = False) -> None:
        handle = _COSTS.curve(*_points(measured), old)
        if not handle:
            raise ValueError(f"a cost curve needs positive times from one token on, not {dict(measured)}")
        super().__init__(handle)
        self._owned()


class StreamedCosts(Costs):
    """Costs of passes over one sequence's tokens, or a batch's, whose experts are read from a disk.

    ``resident``: the share of the experts that are in memory at a time. What ``curve`` is told of passes has
    no waits in it.
    """

    def __init__(self, curve: CostCurve, experts: Experts, resident: float) -> None:
        sizes = experts.layers, experts.count, experts.chosen, experts.slot_bytes
        super().__init__(_COSTS.streamed(curve.handle, *sizes, resident), needs=curve)
        self._owned()


class EnergyCosts(Costs):
    """Joules of passes: the seconds of other costs, times the watts of a pass over as many tokens.

    ``watts`` maps tokens of a pass to power above idle; between them, straight lines. Drafters are charged
    the power of a plain pass. Raises ValueError without the watts of one token, and for watts that are not
    positive.
    """

    def __init__(self, curve: Costs, watts: Mapping[int, float]) -> None:
        if 1 not in watts or min(watts) < 1 or not all(0.0 < power < math.inf for power in watts.values()):
            raise ValueError(f"energy costs need positive watts from one token on, not {dict(watts)}")
        super().__init__(_COSTS.energy(curve.handle, *_points(watts)), needs=curve)
        self._owned()


class _Shared:
    """Costs of a batch live as long as one of their views."""

    def __init__(self, handle: int, table: Costs) -> None:
        self._table = table
        weakref.finalize(self, _BATCH.batch_destroy, handle)


class BatchCosts:
    """The costs of passes that ``count`` sequences share; ``views`` has those of each sequence's tokens."""

    def __init__(self, table: CostCurve | StreamedCosts, count: int) -> None:
        self._handle = _BATCH.batch(table.handle, count)
        shared = _Shared(self._handle, table)
        views = (_BATCH.batch_view(self._handle, number) for number in range(count))
        self.views = tuple(Costs(view, needs=shared) for view in views)

    def passed(self, tokens: Mapping[int, int], seconds: float, read: StoreCounts | None = None) -> None:
        """Note that a pass over ``tokens``, by sequence, took ``seconds``, and ``read`` experts."""
        count = len(tokens)
        sequences, each = pack(f"{count}i", *tokens), pack(f"{count}i", *tokens.values())
        _BATCH.batch_passed(self._handle, count, sequences, each, seconds, *reads_of(read))
