"""Figures of a reply beyond its times: energy, memory-bound speed-up, and the distance from the roofline.

All of them follow from the marks that an engine made at the reply's start, first token and end. Nothing is
read while tokens come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.core.cache_config import KvType
from edgedec.core.cache_kinds import Keys
from edgedec.core.quick_dataclass import dataclass
from edgedec.memory.sizes import kv_row_bytes, ring_keys, whole_keys
from edgedec.metrics.marks import CounterSnapshot, Marks
from edgedec.metrics.mbsu import Mbsu, Weights
from edgedec.metrics.stats import ReplyStats
from edgedec.metrics.traffic import Traffic, decoding_work
from edgedec.telemetry.energy import EnergyEstimate, Meter, estimate
from edgedec.telemetry.energy.estimate import MODEL

if TYPE_CHECKING:
    from edgedec.core.model_spec import ModelSpec
    from edgedec.metrics.roofline import Roofline

IDLE_FILE, BANDWIDTH_FILE = "idle.json", "bandwidth.json"
"""Files in the folder ``costs`` of the home."""


@dataclass(frozen=True, slots=True)
class Energy:
    """The joules of a reply above idle power, its prompt included; per token: of decoding alone.

    ``estimated``: by the model of ``telemetry.energy.estimate``, between ``low`` and ``high``; ``reason``
    says why it was not measured. ``idle_w``: idle power, in watts, that was subtracted.
    """

    source: str
    estimated: bool
    joules: float
    joules_per_token: float | None
    idle_w: float | None = None
    low: float | None = None
    high: float | None = None
    per_token_low: float | None = None
    per_token_high: float | None = None
    reason: str = ""

    def as_json(self) -> dict[str, object]:
        """Return the figures as JSON fields; a measurement has no ``low`` and ``high``."""
        found = {name: round(one, 6) if isinstance(one, float) else one for name, one in asdict(self).items()}
        return found if self.reason else {name: one for name, one in found.items() if name != "reason"}


@dataclass(frozen=True, slots=True)
class Measures:
    """The facts that figures of replies are made of; ``folder`` keeps idle power and bandwidth."""

    traffic: Traffic
    meter: Meter | None
    refused: str
    """Why there is no meter."""
    folder: Path | None
    threads: int
    window: int = 0
    """Slots that a layer with a window sees."""
    small: Traffic | None = None
    """Traffic of the small model that takes turns with this one."""

    def as_json(self, marks: Marks | None, stats: ReplyStats, *, alone: bool = True) -> dict[str, object]:
        """Return the figures of a reply as JSON fields; empty for one that gave no token.

        Not ``alone``: another model wrote part of it, whose passes are not among the marks. There is neither
        a speed-up nor a roofline then.
        """
        if marks is None:
            return {}
        gain = self.mbsu(marks, stats) if alone else None
        limit = self.roofline(marks, stats) if alone else None
        return {
            "energy": self.energy(marks, stats).as_json(),
            "mbsu": gain and round(gain.streamed, 6),
            "mbsu_with_embedding": gain and round(gain.parameters, 6),
            "roof": limit and limit.as_json(),
        }

    def energy(self, marks: Marks, stats: ReplyStats) -> Energy:
        """Return the energy of a reply: measured, or else estimated and labelled so.

        Measures the idle power first where it is not known, which takes a second.
        """
        if self.meter is None:
            return self.estimated(marks, stats, self.refused)
        if reason := _unmeasured(self.meter, marks.start, marks.first, marks.end):
            return self.estimated(marks, stats, reason)
        idle_w, steps = self.idle_w(), stats.completion_tokens - 1
        return Energy(
            self.meter.source,
            estimated=False,
            joules=_above(marks.start, marks.end, idle_w),
            joules_per_token=_above(marks.first, marks.end, idle_w) / steps if steps > 0 else None,
            idle_w=idle_w,
        )

    def batch_energy(
        self, start: CounterSnapshot, end: CounterSnapshot, tokens: int, idle_w: float | None
    ) -> Energy:
        """Return the energy of several replies together; ``tokens``: those of all of them.

        Passes are shared, so nothing is told of a single reply. Prompts cannot be told from decoding: they
        are in the joules a token too. ``idle_w``: idle power as measured before the first reply.
        """
        reason = self.refused
        if self.meter is not None and not (reason := _unmeasured(self.meter, start, end)):
            joules = _above(start, end, idle_w)
            return Energy(self.meter.source, False, joules, joules / tokens if tokens else None, idle_w)
        found = self._estimate(start, end)
        return _labelled(found, found, tokens, reason)

    def idle_w(self) -> float | None:
        """Return the idle power, in watts; None without a meter, and where it told none.

        Measures it first where it is not known, which takes a second: call it while nothing computes.
        """
        if self.meter is None:
            return None
        from edgedec.telemetry.energy.idle import known_idle

        idle = known_idle(self.meter, self.folder / IDLE_FILE if self.folder else None)
        return idle.watts if idle else None

    def estimated(self, marks: Marks, stats: ReplyStats, reason: str = "") -> Energy:
        """Return the estimate of a reply's energy."""
        whole, decoding = self._estimate(marks.start, marks.end), self._estimate(marks.first, marks.end)
        return _labelled(whole, decoding, stats.completion_tokens - 1, reason)

    def mbsu(self, marks: Marks, stats: ReplyStats) -> Mbsu | None:
        """Return the memory-bound speed-up of decoding, in both conventions; None for a single token.

        It is the bytes that plain decoding reads for these tokens, by those that were read: KV caches are
        among both. Without drafts it is 1. Where two models take turns it is plain decoding of the large one
        by what both read.
        """
        read, steps = self._read(marks.first, marks.end), stats.completion_tokens - 1
        if steps < 1 or not read.streamed:
            return None
        plain = self._plain(marks, stats)
        if plain is None:
            return None
        return Mbsu(plain.streamed / read.streamed, plain.parameters / read.parameters)

    def roofline(self, marks: Marks, stats: ReplyStats) -> Roofline | None:
        """Return how near decoding came to the bandwidth; None while that is not known, or for one token."""
        from edgedec.metrics.roofline import Roofline
        from edgedec.telemetry import bandwidth

        known = bandwidth.kept(self.folder / BANDWIDTH_FILE) if self.folder else []
        found, rate = bandwidth.with_threads(known, self.threads), stats.decode_tokens_per_s
        read = self._read(marks.first, marks.end).streamed
        if found is None or rate is None or not read:
            return None
        return Roofline(read / (stats.completion_tokens - 1), rate, found.gb_per_s)

    def _plain(self, marks: Marks, stats: ReplyStats) -> Weights | None:
        """Return the bytes that plain decoding of the target reads for a reply; None where that is unknown.

        With one model its own passes say how many bytes one reads, rejected drafts in the cache included.
        """
        steps, work, times = stats.completion_tokens - 1, marks.end.work.since(marks.first.work), 1.0
        if self.small:
            work = decoding_work(stats.prompt_tokens, [(0, 0)] * steps, self.window)
        elif work.passes:
            times = steps / work.passes
        else:
            return None
        lookup = work.passes * self.traffic.weights.lookup
        return Weights(times * self.traffic.bytes_read(work), times * lookup)

    def _read(self, start: CounterSnapshot, end: CounterSnapshot) -> Weights:
        """Return the bytes that all models and their drafters read between two marks."""
        streamed = lookup = 0.0
        for traffic, before, after in self._parts(start, end):
            work = after.work.since(before.work)
            streamed += traffic.bytes_read(work) + after.draft_bytes - before.draft_bytes
            lookup += (
                work.passes * traffic.weights.lookup + after.draft_table_bytes - before.draft_table_bytes
            )
        return Weights(streamed, lookup)

    def _parts(
        self, start: CounterSnapshot, end: CounterSnapshot
    ) -> Iterator[tuple[Traffic, CounterSnapshot, CounterSnapshot]]:
        """Yield the traffic and the marks of each model."""
        yield self.traffic, start, end
        if self.small and start.small and end.small:
            yield self.small, start.small, end.small

    def _estimate(self, start: CounterSnapshot, end: CounterSnapshot) -> EnergyEstimate:
        operations = 0.0
        for traffic, before, after in self._parts(start, end):
            drafts = after.draft_bytes - before.draft_bytes
            operations += traffic.operations(after.work.since(before.work)) + traffic.operations_of(drafts)
        return estimate(self._read(start, end).streamed, operations)


def traffic_of(spec: ModelSpec, weight_bytes: int, kv: KvType | None) -> Traffic:
    """Return the traffic of a model with these weights; ``kv`` None: another runtime keeps fp16 or the like.

    A model that another runtime runs counts a product for each byte of its weights.
    """
    streamed = max(spec.dense_bytes(weight_bytes - spec.table_bytes), 1)
    # Layers that share the keys of others read them, too.
    readers = spec.n_layers - spec.n_window_layers - sum(kind.layers for kind in spec.states)
    return Traffic(
        Weights(streamed, spec.table_bytes),
        readers * _row_bytes(whole_keys(spec), kv),
        spec.n_window_layers * _row_bytes(ring_keys(spec), kv),
        _products(spec) if spec.ffn_size else streamed,
        spec.experts,
    )


def _row_bytes(keys: Keys | None, kv: KvType | None) -> int:
    return 2 * keys.kv_heads * kv_row_bytes(keys.head_dim, kv or "fp16") if keys else 0


def _products(spec: ModelSpec) -> int:
    queries, keys = spec.n_heads * spec.head_dim, spec.n_kv_heads * spec.head_dim
    layer = spec.hidden_size * (2 * queries + 2 * keys)
    return spec.n_layers * layer + spec.hidden_size * (3 * spec.taken + spec.vocab_size)


def _labelled(whole: EnergyEstimate, each: EnergyEstimate, tokens: int, reason: str) -> Energy:
    """Return an estimate as an ``Energy``; ``each``: the part that made ``tokens``, for joules a token."""
    token, low, high = (one / tokens if tokens > 0 else None for one in (each.joules, each.low, each.high))
    return Energy(MODEL, True, whole.joules, token, None, whole.low, whole.high, low, high, reason)


def _unmeasured(meter: Meter, *marks: CounterSnapshot) -> str:
    """Return why the meter says nothing about the time between the first mark and the last; "" if it does."""
    start, end = marks[0].reading, marks[-1].reading
    if start is None or end is None or any(mark.reading is None for mark in marks):
        return f"{meter.source} could no longer be read"
    if start.interruptions != end.interruptions:
        return "the machine was suspended or plugged in meanwhile"
    if (took := end.at_s - start.at_s) < meter.least_s:
        return f"{took:.2g} s are too short for {meter.source}"
    return "" if end.joules > start.joules else f"the counters of {meter.source} stand still"


def _above(start: CounterSnapshot, end: CounterSnapshot, idle_w: float | None) -> float:
    """Return the joules between two marks above those of an idle machine; 0 where they are fewer."""
    assert start.reading is not None
    assert end.reading is not None
    used = end.reading.joules - start.reading.joules
    return max(used - (idle_w or 0.0) * (end.reading.at_s - start.reading.at_s), 0.0)
