"""Predicted speeds of decoding: what passes cost in relation to each other, at the speed the machine has now.

All that one prediction compares is timed in turns, pass by pass. So other load on the machine slows it down
alike, and costs that were measured on a busier day never stand beside others.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from edgedec.control import CostCurve
from edgedec.core.cache_config import CacheConfig, KvType
from edgedec.core.forward import Forward
from edgedec.core.progress import Notice
from edgedec.runtime.budget import kv_of
from edgedec.runtime.cost_file import CostFile
from edgedec.runtime.loaded_model import LoadedModel
from edgedec.runtime.pass_costs import LONGEST_TOKENS, known_costs
from edgedec.telemetry.cores import load_average
from edgedec.telemetry.stats import Clock

SHORT_CONTEXT_TOKENS = 128
"""A cache of so many tokens is enough for timing. A longer context slows passes down."""
_ROUNDS, _MOST_ROUNDS = 5, 60
_ENOUGH_S = 0.5
"""More than the fewest rounds are made only while they are quicker than this."""

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

    Ratios of passes over several tokens to one come from the files in ``home``. Missing ones are measured and
    kept there, of which ``notice`` hears; None: they are not, and then the curve ends at one token. Raises
    the errors of ``Backend.forward``.
    """
    load = load_average()
    capacity = min(SHORT_CONTEXT_TOKENS, model.spec.context_length)
    forwards: dict[KvType, Forward] = {}
    shapes: dict[KvType, CostCurve] = {}
    for kind in kinds:
        kv = kv_of(model, kind)
        forwards[kind] = model.backend.forward(CacheConfig(capacity, kv, LONGEST_TOKENS))
        file = CostFile.of(model, kv, home / "costs") if home else None
        shapes[kind] = _shape(model, forwards[kind], file, notice, clock)
    levels = seconds_in_turns(forwards, clock)
    return CostsNow({kind: at_level(shapes[kind], levels[kind]) for kind in kinds}, load)


def _shape(
    model: LoadedModel, forward: Forward, file: CostFile | None, notice: Notice | None, clock: Clock
) -> CostCurve:
    if not (model.backend.caps.trees and model.backend.caps.exact):
        return CostCurve({1: 1.0})
    if notice:
        return known_costs(forward, file, clock=clock, notice=notice).curve
    kept = file.read() if file else None
    return CostCurve(kept.seconds if kept else {1: 1.0})


def seconds_in_turns(forwards: Mapping[K, Forward], clock: Clock) -> dict[K, float]:
    """Return the seconds that one more token takes each of ``forwards``, at a short context.

    They take turns, and the first is the reference: what the others take is the median of their ratios to it
    in the same round. A ratio whose quartiles lie on both sides of 1 counts as 1. Empties the KV caches.
    """
    times: dict[K, list[float]] = {key: [] for key in forwards}
    for forward in forwards.values():
        forward.rewind(0)
        forward.extend([0])  # wakes threads and touches memory
    started = clock()
    rounds = min(_MOST_ROUNDS, *(forward.capacity - 1 for forward in forwards.values()))
    for turn in range(rounds):
        if turn >= _ROUNDS and clock() - started > _ENOUGH_S:
            break
        for key, forward in forwards.items():
            began = clock()
            forward.extend([0])
            times[key].append(clock() - began)
    for forward in forwards.values():
        forward.rewind(0)
    reference = np.array(next(iter(times.values())))
    plain = float(np.median(reference))
    return {key: plain * _ratio(np.array(found) / reference) for key, found in times.items()}


def at_level(curve: CostCurve, plain_s: float) -> CostCurve:
    """Return ``curve`` on a machine where a pass over one token takes ``plain_s`` seconds."""
    factor = plain_s / curve.plain
    return CostCurve({tokens: factor * seconds for tokens, seconds in curve.measured().items()})


def _ratio(ratios: NDArray[np.float64]) -> float:
    low, median, high = np.quantile(ratios, (0.25, 0.5, 0.75))
    return 1.0 if low <= 1.0 <= high else float(median)
