"""Decoding in simulated time: devices, texts and drafters of which everything is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgedec.control import CostCurve
from edgedec.core.rows import HeadRows
from edgedec.core.tree import ROOT, DraftTree
from edgedec.decode.passes import PassTime
from edgedec.decode.records import Verdict
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter
from tests.fixtures.rounds import begin_round
from tests.reference.verification import keyed

LONGEST = 16
NO_ROWS = HeadRows(
    np.empty((0, 1), np.float32), np.empty((0, 1), np.int32), np.empty(0, np.float32), np.empty(0, np.float32)
)


def curve(points: Mapping[int, float], second: float = 0.005) -> CostCurve:
    """Costs given relative to one token."""
    return CostCurve({tokens: second * cost for tokens, cost in points.items()})


LINEAR = {tokens: float(tokens) for tokens in range(1, LONGEST + 1)}
FLAT = {1: 1.0, LONGEST: 1.0}
AVX2 = {1: 1.0, 2: 1.3, 3: 1.59, 4: 1.77, 6: 2.26, 8: 2.8, 12: 3.9, 16: 4.84}
QUANTS = {1: 1.0, 2: 1.1, 3: 1.31, 4: 1.56, 6: 2.2, 8: 2.75, 12: 3.8, 16: 4.8}
VNNI = {1: 1.0, 8: 1.2, 16: 1.4}
STEPS = {1: 1.0, 2: 2.0, 4: 2.1, 5: 3.0, 8: 3.2, 9: 4.5, 16: 6.0}
"""Two tokens cost as much as four."""
BENT = {1: 1.0, 2: 1.02, 4: 1.1, 8: 1.5, 16: 2.9}
"""Passes over up to four tokens cost little more than one."""
CURVES = {"linear": LINEAR, "flat": FLAT, "avx2": AVX2, "quants": QUANTS, "vnni": VNNI, "steps": STEPS}


@dataclass
class Device:
    """A clock that only passes and drafters move. ``speed(now)`` stretches passes; ``noise`` is relative."""

    costs: CostCurve
    noise: float = 0.0
    interrupted: float = 0.0
    """Share of passes that take ten times as long."""
    speed: Callable[[float], float] = lambda now: 1.0
    now: float = 0.0
    dice: random.Random = field(default_factory=lambda: random.Random(1))

    def clock(self) -> float:
        return self.now

    def run(self, tokens: int) -> float:
        took = self.costs.seconds(tokens) * self.speed(self.now) * self.dice.lognormvariate(0.0, self.noise)
        if self.interrupted and self.dice.random() < self.interrupted:
            took *= 10.0
        self.now += took
        return took


class Guesser(Drafter):
    """Drafts the text that will come, each token right with the probability ``right(position)``.

    It claims ``claims`` of every token, and takes ``call`` seconds and ``level`` more per token drafted, and
    ``reading`` once, and ``catching_up`` per token that was committed since it was last asked.
    """

    def __init__(
        self,
        text: Sequence[int],
        device: Device,
        right: Callable[[int], float],
        claims: float | None = None,
        *,
        depth: int = LONGEST,
        call: float = 0.0,
        level: float = 0.0,
        reading: float = 0.0,
        catching_up: float = 0.0,
        name: str = "guesser",
    ) -> None:
        self.name, self._text, self._device, self._right, self._claims = name, text, device, right, claims
        self._depth, self._call, self._level = depth, call, level
        self._reading, self._catching_up = reading, catching_up
        self._read = 0
        self._at = 0
        self.calls = 0

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        self._at = len(tokens)

    def commit(self, tokens: Sequence[int]) -> None:
        self._at += len(tokens)

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        self.calls += 1
        self._device.now += self._reading * (self.calls == 1)
        return self._guess(limit, floor)

    def _guess(self, limit: int, floor: float) -> DraftTree:
        tokens: list[int] = []
        probs: list[float] = []
        reach = 1.0
        for place in range(self._at, min(self._at + min(limit, self._depth), len(self._text))):
            prob = self._right(place)
            claimed = prob if self._claims is None else self._claims
            reach *= claimed
            if reach < floor:
                break
            tokens.append(self._text[place] if self._luck(place) < prob else -1)
            probs.append(max(claimed, 1e-3))
        self._device.now += self._call + self._level * len(tokens)
        self._device.now += self._catching_up * (self._at - self._read)
        self._read = self._at
        count = len(tokens)
        return DraftTree(tuple(tokens), tuple(range(ROOT, count - 1)), tuple(probs), (self.name,) * count)

    def _luck(self, place: int) -> float:
        """Of a draft made here for ``place``: the same whenever it is asked for."""
        return _LUCK[(self._at * 7919 + place * 104729) % len(_LUCK)]


class Saying(Drafter):
    """Drafts what ``guess`` makes of a limit."""

    def __init__(self, name: str, guess: Callable[[int], DraftTree]) -> None:
        self.name, self._guess = name, guess

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        """It knows no tokens."""

    def commit(self, tokens: Sequence[int]) -> None:
        """It knows no tokens."""

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        return self._guess(limit)


_DICE = random.Random(3)
_LUCK = [_DICE.random() for _ in range(99991)]


def text(length: int = 2000) -> list[int]:
    dice = random.Random(7)
    return [dice.randrange(1000) for _ in range(length)]


def decode(text: Sequence[int], device: Device, speculation: Speculation | None) -> float:
    """Seconds to decode all of ``text``: what Engine does, without a model."""
    if speculation is None:
        for _ in text:
            device.run(1)
        return device.now
    speculation.begin([], 0)
    _reply(device, speculation, text)
    return device.now


def _reply(device: Device, speculation: Speculation, text: Sequence[int]) -> None:
    rounds(speculation, text, lambda at, tree: PassTime(device.run(1 + len(tree))))


def rounds(speculation: Speculation, text: Sequence[int], run: Callable[[int, DraftTree], PassTime]) -> None:
    """Decode ``text``; ``run`` is the pass over its token at a place and a draft behind it."""
    at = 0
    while at < len(text):
        round = begin_round(speculation, len(text) - at - 1)
        took = run(at, round.tree)
        verdict = following(round.tree, text[at:])
        round.settle(NO_ROWS, verdict, took)
        at += len(verdict.tokens)


def following(tree: DraftTree, text: Sequence[int]) -> Verdict:
    """The verdict of a round when ``text`` is the truth."""
    return keyed(tree, lambda node, accepted: text[len(accepted)])


class ReadingGuesser(Guesser):
    """A ``Guesser`` that reads the prompt of every reply first, where it is asked at all."""

    _unread = True

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        super().begin(tokens, kept)
        self._unread, self._read = True, len(tokens)

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        self._device.now += self._reading * self._unread
        self._unread = False
        self.calls += 1
        return self._guess(limit, floor)


def replies(device: Device, speculation: Speculation, truth: Sequence[int], length: int) -> list[float]:
    """Seconds of each reply; ``truth`` is all of them, of ``length`` tokens each."""
    found = []
    for start in range(0, len(truth), length):
        began = device.now
        speculation.begin(truth[:start], 0)
        _reply(device, speculation, truth[start : start + length])
        found.append(device.now - began)
    return found


Make = Callable[[Sequence[int], Device], Sequence[Drafter]]


def speedup(
    make: Make,
    device: Callable[[], Device],
    *,
    believed: CostCurve | None = None,
    length: int = 2000,
) -> float:
    """Of decoding with control over decoding without, on two copies of a device."""
    truth = text(length)
    plain = decode(truth, device(), None)
    drafted = device()
    costs = believed or CostCurve({t: drafted.costs.seconds(t) for t in range(1, LONGEST + 1)})
    drafters = make(truth, drafted)
    return plain / decode(truth, drafted, Speculation(drafters, costs, clock=drafted.clock))


class Fixed(Speculation):
    """Always feeds ``count`` drafted tokens."""

    def __init__(self, drafter: Drafter, count: int) -> None:
        super().__init__([drafter], limit=count)
