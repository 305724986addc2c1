"""Parts of the core's control, which tests examine alone (kernels/engine/probes/control.cc)."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_double, c_int, c_int64, c_size_t, c_void_p
from struct import pack
from typing import Any, NamedTuple

import numpy as np

from edgedec.control import CostCurve, Costs
from edgedec.core.tree import DraftTree
from edgedec.native import probe


def _call(name: str, *arguments: Any) -> Any:
    """Call a function whose name says what it returns: see ``_RESULTS``."""
    kinds = {int: c_int, bool: c_int, float: c_double, bytes: c_void_p}
    types = [kinds.get(type(one), c_void_p) for one in arguments]
    return probe.function(name, _RESULTS.get(name), *types)(*arguments)


def _handle(pointer: int) -> c_void_p:
    return c_void_p(pointer)


_RESULTS = {
    "least_reach": c_double,
    "acceptance": c_void_p,
    "acceptance_calibrate": c_double,
    "credit": c_void_p,
    "credit_book": c_double,
    "control": c_void_p,
    "control_charged": c_double,
    "control_verified": c_double,
    "control_credit": c_double,
    "control_plan": c_int,
    "level_check": c_void_p,
    "level_check_told": c_int,
    "reuse": c_void_p,
    "reuse_expected": c_double,
    "reuse_passing": c_double,
}


class FeedPlan(NamedTuple):
    nodes: int
    accepted: float
    gain: float


def feed_plan(
    tree: DraftTree, costs: Costs, *, rate: float = 0.0, verify_overhead: float = 0.0, spare: float = -1.0
) -> FeedPlan:
    """Say how much of ``tree`` is worth feeding."""
    count, found = len(tree), np.zeros(3)
    draft = pack(f"{count}i", *tree.parents), pack(f"{count}d", *tree.probs)
    terms = float(rate), float(verify_overhead), float(spare)
    _call("feed_plan", _handle(costs.handle), count, *draft, *terms, found.ctypes)
    return FeedPlan(int(found[0]), float(found[1]), float(found[2]))


def least_reach(costs: Costs, limit: int) -> float:
    """Return the path probability below which no token of a draft pays."""
    found: float = _call("least_reach", _handle(costs.handle), limit)
    return found


class Acceptance:
    """The acceptance of drafters, by name."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._it = _handle(_call("acceptance", len(names)))

    def observe(self, tree: DraftTree, committed: Sequence[int]) -> None:
        count, sources = len(tree), [self._names.index(name) for name in tree.sources]
        ints = f"{count}i"
        draft = pack(ints, *tree.tokens), pack(ints, *tree.parents), pack(f"{count}d", *tree.probs)
        following = pack(f"{len(committed)}i", *committed)
        given = *draft, pack(ints, *sources), len(committed), following
        _call("acceptance_observe", self._it, count, *given)

    def calibrate(self, name: str, prob: float) -> float:
        found: float = _call("acceptance_calibrate", self._it, self._names.index(name), prob)
        return found


class Credit:
    """The account of what speculation may lose."""

    def __init__(self) -> None:
        self._it = _handle(_call("credit"))

    def book(self, tokens: int, cost: float) -> float:
        """Book a round; returns the balance."""
        found: float = _call("credit_book", self._it, tokens, float(cost))
        return found


def line(calls: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the slope and the mean of calls of so many units and seconds."""
    units, seconds = zip(*calls, strict=True)
    found, count = np.zeros(2), len(calls)
    _call("line", count, pack(f"{count}d", *units), pack(f"{count}d", *seconds), found.ctypes)
    return float(found[0]), float(found[1])


class Control:
    """Measurements with one pretrained drafter, and what queries they allow."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._it = _handle(_call("control", _handle(costs.handle)))

    def charged(self, seconds: float, usual: float) -> float:
        """Return what a pass is charged."""
        found: float = _call("control_charged", self._it, seconds, usual)
        return found

    def verified(self, drafted: int, seconds: float) -> float:
        """Note a verification; returns what one token more is believed to take."""
        found: float = _call("control_verified", self._it, drafted, seconds)
        return found

    def credit(self, tokens: int, cost: float) -> float:
        """Book a round; returns the balance."""
        found: float = _call("control_credit", self._it, tokens, float(cost))
        return found

    def plan(self, count: int, prob: float) -> int:
        """Return the nodes to feed of a chain of ``count`` tokens."""
        found: int = _call("control_plan", self._it, count, prob)
        return found


class LevelCheck:
    """A level check that notes the ratios it told, and the scales that rounds were settled with."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._it = _handle(_call("level_check", _handle(costs.handle)))

    def saw(self, seconds: float, usual: float) -> None:
        _call("level_check_saw", self._it, seconds, usual)

    def saw_first_call(self) -> None:
        _call("level_check_saw_first_call", self._it)

    def settle(self, turn: int) -> None:
        _call("level_check_settle", self._it, turn)

    def plain(self, turn: int, seconds: float) -> None:
        _call("level_check_plain", self._it, turn, seconds)

    @property
    def ratios(self) -> list[float]:
        return self._told(scales=False)

    @property
    def scales(self) -> list[float]:
        return self._told(scales=True)

    def _told(self, *, scales: bool) -> list[float]:
        found = np.zeros(4096)
        count: int = _call("level_check_told", self._it, scales, found.ctypes, len(found))
        return [float(one) for one in found[:count]]


class Reuse:
    """Times of passes of which a drafter computed a part."""

    def __init__(self) -> None:
        self._it = _handle(_call("reuse"))

    def expected(self, costs: Costs, tokens: int, reused: int) -> float:
        found: float = _call("reuse_expected", self._it, _handle(costs.handle), tokens, reused)
        return found

    def passing(self, costs: CostCurve, tokens: int, reused: int, seconds: float | None) -> float:
        given = tokens, reused, -1.0 if seconds is None else seconds
        found: float = _call("reuse_passing", self._it, _handle(costs.handle), *given)
        return found


def played(seed: int, rounds: int, room: int = 1 << 16) -> bytes:
    """Return the numbers that describe a run in made-up time, which are the same on every machine."""
    found = np.zeros(room)
    call = probe.function("speculation", c_int64, c_int64, c_int64, c_void_p, c_size_t)
    count: int = call(seed, rounds, found.ctypes.data, room)
    assert 0 < count <= room
    return found[:count].tobytes()
