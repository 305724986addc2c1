"""Measure what a round takes beside its pass: ``python -P docs/measure/round_time.py [ROUNDS]``.

The pass is replayed: its rows were made before, and it pretends to take milliseconds. So drafting, drawing,
verification and control are all that takes time. Like a real pass it leaves nothing of them in the
processor's caches. Prints microseconds of this thread per round, the least of some runs: for plain decoding,
for the drafters that read tables, for a draft model that takes no time, and for drafts that never pay.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence

import click
import numpy as np

from edgedec.backends.fake import FakeForward
from edgedec.control import CostCurve
from edgedec.core.rows import LAST_ROW, HeadRows, Rows
from edgedec.core.tree import EMPTY, DraftTree, chain
from edgedec.decode.engine import Engine
from edgedec.decode.passes import PassTimer
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter, Lookup, Recycling
from edgedec.sampling import DrawParams

VOCAB, WIDTH = 49152, 64
QUICK = {1: 0.005, 16: 0.0055}
STEEP = {1: 0.005, 16: 0.080}


class Replayed(FakeForward):
    """Answers each position with one token of a text, whatever was fed."""

    def __init__(self, text: Sequence[int], costs: CostCurve) -> None:
        super().__init__([], vocab_size=VOCAB, capacity=len(text) + 64, max_pass=64)
        dice = np.random.default_rng(1)
        count = len(text) + 64
        self._ids = dice.integers(0, VOCAB, (count, WIDTH)).astype(np.int32)
        self._ids[: len(text), 0] = text
        self._values = np.sort(dice.normal(size=(count, WIDTH)).astype(np.float32) * 3.0)[:, ::-1].copy()
        self._sums = np.log(np.exp(self._values).sum(axis=1)).astype(np.float32) + np.float32(0.3)
        self._entropy = np.ones(count, np.float32)
        self._others = np.ones(1 << 23, np.float32)
        """As many bytes as a pass reads at the least."""
        self._costs = costs
        self.seconds = 0.0
        self.pretended = 0.0

    def clock(self) -> float:
        return time.perf_counter() + self.pretended

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        began = time.thread_time()
        places = []
        for place in range(len(tokens)):
            above = place - 1 if parents is None else parents[place]
            places.append(self.length if above < 0 else places[above] + 1)
        self._book.append(self._book.plan(len(tokens), parents))
        at = [places[row] + 1 for row in rows.resolve(len(tokens))]
        found = HeadRows(self._values[at], self._ids[at], self._sums[at], self._entropy[at])
        self.pretended += self._costs.seconds(min(len(tokens), 16)) + 0.0 * float(self._others.sum())
        self.seconds += time.thread_time() - began
        return found


class Model(Drafter):
    """A draft model that is right three times in four, and takes no time."""

    name = "model"

    def __init__(self, text: Sequence[int]) -> None:
        self._text, self._at = text, 0

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        self._at = len(tokens)

    def commit(self, tokens: Sequence[int]) -> None:
        self._at += len(tokens)

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        count = min(limit, 4)
        right = self._text[self._at : self._at + count]
        drafted = [(token + (self._at + at) % 4 // 3) % VOCAB for at, token in enumerate(right)]
        return chain(drafted, [0.8] * len(drafted), self.name) if drafted else EMPTY


Make = Callable[[Sequence[int]], Sequence[Drafter]]
KINDS: dict[str, tuple[Make, dict[int, float], bool]] = {
    "plain": (lambda text: [], QUICK, False),
    "tables": (lambda text: [Lookup(), Recycling()], QUICK, False),
    "tables, repeated text": (lambda text: [Lookup(), Recycling()], QUICK, True),
    "model": (lambda text: [Model(text)], QUICK, False),
    "never pays": (lambda text: [Lookup(), Recycling()], STEEP, False),
}


def round_s(make: Make, costs: dict[int, float], repeated: bool, tokens: int) -> tuple[float, float]:
    """Seconds of a round beside its pass, and tokens of a round."""
    dice = np.random.default_rng(2)
    text = dice.integers(0, VOCAB, tokens + 8).tolist()
    if repeated:
        text = (text[:50] * (tokens // 50 + 2))[: tokens + 8]
    forward, drafters = Replayed(text, CostCurve(costs)), make(text)
    speculation = Speculation(drafters, CostCurve(costs), clock=time.perf_counter) if drafters else None
    rounds: list[int] = []
    engine = Engine(
        forward,
        speculation=speculation,
        timer=PassTimer(forward.clock),
        observe=lambda record: rounds.append(record.committed),
    )
    steps = engine.generate(text[:4], DrawParams(), max_tokens=tokens, stop_ids=())
    for _ in range(tokens // 4):  # until drafters are known
        next(steps)
    began, passes, before = time.thread_time(), forward.seconds, len(rounds)
    for _ in steps:
        pass
    spent = time.thread_time() - began - (forward.seconds - passes)
    count = len(rounds) - before
    return spent / count, sum(rounds[before:]) / count


def main() -> None:
    """Print one JSON object."""
    tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 1500
    found = {}
    for kind, setting in KINDS.items():
        runs = [round_s(*setting, tokens) for _ in range(5)]
        found[kind] = {"round_us": round(1e6 * min(runs)[0], 1), "tokens": round(runs[0][1], 2)}
    click.echo(json.dumps(found))


if __name__ == "__main__":
    main()
