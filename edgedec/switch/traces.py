"""Entropies of a small and a large model along the large model's own greedy replies.

From these the rule's choices follow for any thresholds, without another reply. They are an approximation: the
small model reads the large one's text here, and its own text in a switched reply.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edgedec.control.switching import SwitchRule, chosen_models
from edgedec.core.rows import Rows
from edgedec.decode.checks import common_prefix
from edgedec.decode.early import EarlyWay
from edgedec.decode.engine import LONGEST_PASS, Engine
from edgedec.sampling import SamplingParams
from edgedec.switch.writers import ForeignWriter, HomeWriter

_POINTS = 25


@dataclass(frozen=True, slots=True)
class Trace:
    """One reply, token by token of the large model."""

    small_bits: list[float]
    large_bits: list[float]
    agreed: list[bool]
    """Whether the small model's most probable text is the large one's token."""


@dataclass(frozen=True, slots=True)
class CalibrationPoint:
    """A rule, the share of tokens that the large model writes under it, and the share that is as its own."""

    rule: SwitchRule
    share: float
    agreement: float

    def as_json(self) -> dict[str, float]:
        """Return the point as JSON fields."""
        return {
            "low_bits": round(self.rule.low_bits, 4),
            "high_bits": round(self.rule.high_bits, 4),
            "share_of_large": round(self.share, 4),
            "agreement": round(self.agreement, 4),
        }


@dataclass(frozen=True, slots=True)
class Reader:
    """A model that reads a reply: its engine, and the bytes that a token adds."""

    writer: HomeWriter | ForeignWriter
    spelling: Callable[[int], bytes]


def traced_reply(large: Reader, small: Reader, prompt: Sequence[int], max_tokens: int) -> Trace:
    """Let the large model answer ``prompt`` greedily, and the small one read the answer.

    Raises the errors of ``Engine.generate``.
    """
    engine = large.writer.engine
    ends = frozenset(engine.spec.eos_ids)
    steps = [
        step
        for step in engine.generate(prompt, SamplingParams(), max_tokens=max_tokens, stop_ids=ends)
        if step.token not in ends
    ]
    reply = [step.token for step in steps]
    before, ids = small.writer.reads(prompt), small.writer.reads([*prompt, *reply])
    start = common_prefix(before, ids)
    way = small.writer.way if isinstance(small.writer, HomeWriter) else None
    bits, right = read_along(small.writer.engine, ids, start, way)
    starts = _starts([small.spelling(token) for token in ids[start:]])
    ends_of = _starts([large.spelling(token) for token in reply])
    return _aligned(ends_of, [step.entropy_bits or 0.0 for step in steps], starts, bits, right)


def read_along(
    engine: Engine, ids: Sequence[int], start: int, way: EarlyWay | None = None
) -> tuple[list[float], list[bool]]:
    """Feed ``ids``; return for each token from ``start`` on its entropy in bits, and whether it was the first
    choice of the layers of ``way``, or of all. The engine has forgotten its sequence afterwards.
    """
    engine.reset()
    forward = engine.forward
    bits: list[float] = []
    right: list[bool] = []
    for at in range(0, len(ids) - 1, LONGEST_PASS):
        piece = list(ids[at : min(at + LONGEST_PASS, len(ids) - 1)])
        wanted = tuple(range(max(start - 1 - at, 0), len(piece)))
        if way is None:
            head = forward.extend(piece, rows=Rows(indices=wanted))
        else:
            head = forward.peek(piece, exit=way.exit, rows=Rows(indices=wanted), bypass=way.bypass)
            forward.extend(piece, rows=Rows(indices=()))
        bits += [head.entropy.item(row) / math.log(2.0) for row in range(len(wanted))]
        right += [head.ids.item(row, 0) == ids[at + index + 1] for row, index in enumerate(wanted)]
    engine.reset()
    return bits, right


def sweep(traces: Sequence[Trace], window: int, least_run: int) -> list[CalibrationPoint]:
    """Return points for thresholds from the large model alone to the small one alone.

    Both thresholds of a point are the same quantile of their model's own mean entropies.
    """
    small = _means([trace.small_bits for trace in traces], window)
    large = _means([trace.large_bits for trace in traces], window)
    rules = [SwitchRule(-1.0, -1.0, window, least_run)]
    for quantile in np.linspace(0.02, 0.98, _POINTS):
        high, low = float(np.quantile(small, quantile)), float(np.quantile(large, quantile))
        rules.append(SwitchRule(round(min(low, high), 3), round(high, 3), window, least_run))
    rules.append(SwitchRule(0.0, math.inf, window, least_run))
    return [_point(traces, rule) for rule in rules]


def of_share(points: Sequence[CalibrationPoint], share: float) -> CalibrationPoint:
    """Return the point whose share of the large model is nearest to ``share``."""
    return min(points, key=lambda point: abs(point.share - share))


def of_agreement(points: Sequence[CalibrationPoint], agreement: float) -> CalibrationPoint:
    """Return the point with the least share of the large model that agrees with it at least so often."""
    enough = [point for point in points if point.agreement >= agreement]
    return min(enough or points[:1], key=lambda point: point.share)


def _point(traces: Sequence[Trace], rule: SwitchRule) -> CalibrationPoint:
    chosen = [chosen_models(rule, trace.small_bits, trace.large_bits) for trace in traces]
    total = sum(map(len, chosen)) or 1
    right = sum(
        large or agreed
        for trace, models in zip(traces, chosen, strict=True)
        for large, agreed in zip(models, trace.agreed, strict=True)
    )
    return CalibrationPoint(rule, sum(map(sum, chosen)) / total, right / total)


def _means(all_bits: Sequence[Sequence[float]], window: int) -> list[float]:
    return [
        math.fsum(bits[at - window : at]) / window for bits in all_bits for at in range(window, len(bits) + 1)
    ] or [0.0]


def _starts(pieces: Sequence[bytes]) -> list[int]:
    """Return where each piece begins in the text, and where the last one ends."""
    places = [0]
    for piece in pieces:
        places.append(places[-1] + len(piece))
    return places


def _aligned(
    places: Sequence[int],
    large_bits: Sequence[float],
    small_places: Sequence[int],
    small_bits: Sequence[float],
    right: Sequence[bool],
) -> Trace:
    """Give each token of the large model the small one's entropy at its beginning.

    ``places`` and ``small_places`` are where tokens begin, in bytes. All tokens of the small model that begin
    inside must be right.
    """
    trace = Trace([], [], [])
    for at, bits in enumerate(large_bits):
        first = max(bisect_right(small_places, places[at]) - 1, 0)
        last = max(bisect_left(small_places, places[at + 1]), first + 1)
        if first >= len(small_bits) or places[at] == places[at + 1]:
            continue
        trace.small_bits.append(small_bits[first])
        trace.large_bits.append(bits)
        trace.agreed.append(all(right[first:last]))
    return trace
