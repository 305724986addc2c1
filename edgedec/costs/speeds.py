"""Predicted speeds of decoding: what passes cost in relation to each other, at the speed the machine has now.

All that one prediction compares is timed in turns, pass by pass. So other load on the machine slows it down
alike, and costs that were measured on a busier day never stand beside others.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from edgedec.control import CostCurve
from edgedec.core.cache_config import CacheConfig, KvType
from edgedec.core.forward import Forward
from edgedec.core.progress import Notice, ignore
from edgedec.core.quick_dataclass import dataclass
from edgedec.costs.cost_file import CostFile
from edgedec.costs.pass_costs import LONGEST_TOKENS, TimedPasses, known_costs, sizes_up_to
from edgedec.loaded_model import LoadedModel
from edgedec.metrics.stats import Clock
from edgedec.telemetry.cores import load_average

SHORT_CONTEXT_TOKENS = 128
"""A cache of so many tokens is enough for timing. A longer context slows passes down."""
_ROUNDS, _MOST_ROUNDS = 5, 60
_ENOUGH_S = 0.75
"""More than the fewest rounds are made only while they are quicker than this for each side."""

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PredictedSpeeds:
    """Tokens per second at a short context.

    ``plain``: one token a pass. ``most``: every drafted token is accepted. Replies with drafts lie between.
    """

    plain: float
    most: float

    @classmethod
    def of(cls, curve: CostCurve, drafted: int) -> PredictedSpeeds:
        """Compute the speeds with up to ``drafted`` drafted tokens in a pass."""
        longest = min(1 + drafted, curve.longest)
        rates = [tokens / curve.seconds(tokens) for tokens in range(1, longest + 1)]
        return cls(rates[0], max(rates))

    def as_json(self) -> dict[str, float]:
        return {"plain_tokens_per_s": round(self.plain, 2), "most_tokens_per_s": round(self.most, 2)}


@dataclass(frozen=True, slots=True)
class CostsNow:
    """Pass costs by kind of KV cache, all of one moment, and the load average before it was measured."""

    curves: Mapping[KvType, CostCurve]
    load: float | None


def costs_now(
    model: LoadedModel,
    kinds: Sequence[KvType],
    home: Path | None,
    *,
    notice: Notice | None,
    clock: Clock = time.perf_counter,
) -> CostsNow:
    """Time passes of ``model`` with each of these kinds of KV cache; another runtime decides on its own.

    The first kind is the reference. The ratios of its passes over several tokens to one come from a file in
    ``home``. Missing ones are measured and kept there, of which ``notice`` hears; None: they are not, and
    then the curve ends at one token. Raises the errors of ``Backend.forward``.
    """
    load = load_average()
    capacity = min(SHORT_CONTEXT_TOKENS, model.spec.context_length)
    forwards = {
        kind: model.backend.forward(CacheConfig(capacity, model.kv_kind(kind), LONGEST_TOKENS))
        for kind in kinds
    }
    shape = _shape(model, forwards[kinds[0]], _file(model, kinds[0], home), notice, clock)
    sizes = list(shape) if len(kinds) > 1 else [1]
    timed = TimedPasses(clock, notice or ignore, model.backend.experts)
    taken = seconds_in_turns(forwards, timed, sizes)
    first = taken[kinds[0]]
    now = {size: first[1] * seconds / shape[1] for size, seconds in shape.items()}
    curves = {kinds[0]: CostCurve(now)}
    for kind in kinds[1:]:
        curves[kind] = CostCurve({size: now[size] * taken[kind][size] / first[size] for size in sizes})
    return CostsNow(curves, load)


def _file(model: LoadedModel, kind: KvType, home: Path | None) -> CostFile | None:
    return CostFile.of(model, model.kv_kind(kind), home / "costs") if home else None


def _shape(
    model: LoadedModel, forward: Forward, file: CostFile | None, notice: Notice | None, clock: Clock
) -> dict[int, float]:
    """Return the seconds of passes that one sequence makes; only their ratios count."""
    if not (model.backend.caps.trees and model.backend.caps.exact):
        return {1: 1.0}
    kept = file.read() if file else None
    seconds = kept.seconds if kept else {1: 1.0}
    if notice:
        store = model.backend.experts
        seconds = known_costs(forward, file, clock=clock, notice=notice, store=store).curve.measured()
    return {size: seconds[size] for size in sizes_up_to(LONGEST_TOKENS, forward) if size in seconds}


def seconds_in_turns(
    forwards: Mapping[K, Forward], timed: TimedPasses, sizes: Sequence[int] = (1,)
) -> dict[K, dict[int, float]]:
    """Return the seconds that passes over ``sizes`` tokens take each of ``forwards``, at a short context.

    They take turns, in alternating order, and the first is the reference: what the others take is the median
    of their ratios to it in the same turns. A ratio that is above 1 in more than a tenth of the turns, and
    below 1 in more than a tenth, counts as 1. Empties the KV caches.
    """
    times: dict[K, dict[int, list[float]]] = {key: {size: [] for size in sizes} for key in forwards}
    for forward in forwards.values():
        timed.run(forward, max(sizes))  # wakes threads and touches memory
    for turn in range(_MOST_ROUNDS):
        if turn >= _ROUNDS and timed.elapsed > _ENOUGH_S * len(forwards):
            break
        for size in sizes:
            for key, forward in list(forwards.items())[:: 1 if turn % 2 == 0 else -1]:
                times[key][size].append(timed.run(forward, size))
        timed.report((turn + 1) / _ROUNDS)
    for forward in forwards.values():
        forward.rewind(0)
    reference = {size: np.array(found) for size, found in next(iter(times.values())).items()}
    return {
        key: {
            size: float(np.median(reference[size])) * _ratio(np.array(found) / reference[size])
            for size, found in by_size.items()
        }
        for key, by_size in times.items()
    }


def _ratio(ratios: NDArray[np.float64]) -> float:
    low, median, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    return 1.0 if low <= 1.0 <= high else float(median)
