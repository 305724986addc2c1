"""Policies that decide which experts stay in memory, replayed on routings: how many find theirs there.

A routing is a list of requests: the experts that a pass asks of one layer. They are numbered across layers.
Nothing here reads a clock, a file or a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgedec.core.quick_dataclass import dataclass

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Routing:
    """Requests in their order, each of experts of one layer. Layer n has those from n * count on."""

    layers: int
    count: int
    requests: Sequence[Numbers]

    @property
    def total(self) -> int:
        """Return the number of experts in all layers."""
        return self.layers * self.count

    @property
    def asked(self) -> int:
        """Return the number of experts in all requests."""
        return sum(len(one) for one in self.requests)


class SlotPolicy(Protocol):
    """Values of experts. Of those that nobody needs now, the one of least value leaves its slot."""

    def use(self, experts: Numbers) -> None:
        """Note a request."""
        ...

    def values(self, experts: Numbers) -> Floats:
        """Return what each of these is worth now."""
        ...


class Recency:
    """LRU: the expert goes that was used longest ago."""

    def __init__(self, routing: Routing) -> None:
        self._last, self._now = np.zeros(routing.total), 0

    def use(self, experts: Numbers) -> None:
        self._now += 1
        self._last[experts] = self._now

    def values(self, experts: Numbers) -> Floats:
        return self._last[experts]


class Frequency:
    """LRFU (Lee et al., 2001): each use counts, half as much ``half_life`` passes of its layer later.

    LFU is the one with an infinite half-life. Values keep their order as passes go by, so each is kept as the
    logarithm of what it was at the first pass.
    """

    def __init__(self, routing: Routing, half_life: float) -> None:
        self._count, self._half_life = routing.count, half_life
        self._passes = np.zeros(routing.layers)
        self._logs = np.full(routing.total, -np.inf)

    def use(self, experts: Numbers) -> None:
        layer = experts[0] // self._count
        self._passes[layer] += 1
        now = self._passes[layer] / self._half_life
        self._logs[experts] = np.logaddexp2(self._logs[experts], now)

    def values(self, experts: Numbers) -> Floats:
        return self._logs[experts]


class Expectation:
    """The expert goes that is expected to be used again last: the policy of the store in ``kernels/experts``.

    A pass of its layer uses an expert with probability p = recent / 4 + usual * 3 / 4. Both are means of the
    layer's last passes, 1 where they used it and 0 where not, in which passes count half as much a half-life
    later. Its next use is 1 / p passes away, plus the part of a pass until its layer's turn.
    """

    def __init__(self, routing: Routing, recent: float = 1.0, usual: float = 16.0) -> None:
        self._count, self._layers = routing.count, routing.layers
        self._kept = 2.0 ** (-1 / recent), 2.0 ** (-1 / usual)
        self._means = np.zeros(routing.total), np.zeros(routing.total)
        self._layer = 0

    def use(self, experts: Numbers) -> None:
        self._layer = int(experts[0]) // self._count
        all_of_layer = slice(self._layer * self._count, (self._layer + 1) * self._count)
        for mean, kept in zip(self._means, self._kept, strict=True):
            mean[all_of_layer] *= kept
            mean[experts] += 1.0 - kept

    def values(self, experts: Numbers) -> Floats:
        recent, usual = self._means
        likely = 0.25 * recent[experts] + 0.75 * usual[experts]
        ahead = (experts // self._count - self._layer - 1) % self._layers + 1
        return -(1.0 / likely + ahead / self._layers)


class Foresight:
    """Belady's optimum (1966): the expert goes whose next use is furthest away. It knows all requests."""

    def __init__(self, routing: Routing) -> None:
        self._next = iter(_next_uses(routing))
        self._uses = np.full(routing.total, np.inf)

    def use(self, experts: Numbers) -> None:
        self._uses[experts] = next(self._next)

    def values(self, experts: Numbers) -> Floats:
        return -self._uses[experts]


def _next_uses(routing: Routing) -> list[Floats]:
    """Return for each request the numbers of the requests that use its experts next."""
    found, later = [], np.full(routing.total, np.inf)
    for number in range(len(routing.requests) - 1, -1, -1):
        experts = routing.requests[number]
        found.append(later[experts])
        later[experts] = number
    return found[::-1]


def hits(routing: Routing, policy: SlotPolicy, slots: int, *, by_layer: bool = False) -> int:
    """Return how many of the experts in all requests were in a slot.

    ``by_layer``: layers share the slots out alike. One that has its share gives up an expert of its own, else
    a layer with more than its share does. A request larger than the slots leaves its last experts there.
    """
    kept = _Kept(routing, slots)
    found = 0
    for experts in routing.requests:
        policy.use(experts)
        here = kept.there[experts]
        found += int(here.sum())
        if by_layer:
            for expert in experts[~here].tolist():
                kept.take(expert, experts, policy)
        else:
            kept.take_all(experts, policy)
    return found


class _Kept:
    """Which experts are in a slot."""

    def __init__(self, routing: Routing, slots: int) -> None:
        self.there = np.zeros(routing.total, dtype=bool)
        self._slots, self._layers, self._count = slots, routing.layers, routing.count
        self._layer_of = np.arange(routing.total) // routing.count
        self._used = np.zeros(routing.layers, dtype=np.int64)

    def take_all(self, experts: Numbers, policy: SlotPolicy) -> None:
        """Take the experts of a request; the least valued others go."""
        self.there[experts] = True
        inside = np.flatnonzero(self.there)
        if (over := len(inside) - self._slots) <= 0:
            return
        others = inside[~np.isin(inside, experts, assume_unique=True)]
        leaving = others[np.argsort(policy.values(others), kind="stable")[:over]]
        self.there[leaving] = False
        self.there[experts[: over - len(leaving)]] = False

    def take(self, expert: int, held: Numbers, policy: SlotPolicy) -> None:
        """Take one expert of a request that holds ``held``; where no slot is free, another expert goes."""
        layer = expert // self._count
        if self._used.sum() >= self._slots:
            share = self._used * self._layers
            goes = (
                self._layer_of == layer
                if share[layer] >= self._slots
                else (share > self._slots)[self._layer_of]
            )
            free = self.there.copy()
            free[held] = False
            for some in (free & goes, free, self.there):
                if (ours := np.flatnonzero(some)).size:
                    leaving = ours[np.argmin(policy.values(ours))]
                    break
            self.there[leaving] = False
            self._used[leaving // self._count] -= 1
        self.there[expert] = True
        self._used[layer] += 1
