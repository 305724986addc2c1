"""A model and a clock that are played here, for the native engine and for Python's."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, POINTER, Structure, c_double, c_int, c_int32, c_int64, c_size_t
from typing import Any, ClassVar

from edgedec.backends.fake import MarkovForward
from edgedec.core.forward import Forward
from edgedec.core.rows import LAST_ROW, HeadRows, Rows

LENGTH = CFUNCTYPE(c_int64)
REWIND = CFUNCTYPE(c_int, c_int64)
EXTEND = CFUNCTYPE(c_int, POINTER(c_int32), c_size_t)
CLOCK = CFUNCTYPE(c_double)


class ProbeForward(Structure):
    _fields_: ClassVar = [
        *((name, c_int64) for name in ("vocab_size", "head_k", "capacity", "max_pass")),
        ("length", LENGTH),
        ("rewind", REWIND),
        ("extend", EXTEND),
        ("clock", CLOCK),
    ]


class Ticks:
    """A clock that goes on at random, the same way for the same seed; passes take its time."""

    def __init__(self, seed: int) -> None:
        self._draw, self._now = random.Random(seed), 100.0

    def __call__(self) -> float:
        self._now += self._draw.uniform(0.0, 2e-5)
        return self._now

    def passed(self, tokens: int) -> None:
        """Take the time of a pass; of some a long time."""
        seconds = (0.005 + 0.0002 * tokens) * self._draw.uniform(0.9, 1.2)
        self._now += seconds * (30 if self._draw.random() < 0.01 else 1)


class Timed(MarkovForward):
    """A small model whose passes take the time of a clock."""

    def __init__(self, clock: Ticks, capacity: int) -> None:
        super().__init__(seed=1, sharpness=4.0, capacity=capacity, max_pass=16, vocab_size=24)
        self._clock = clock

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        self._clock.passed(len(tokens))
        return super().extend(tokens, parents=parents, rows=rows)


def calls_of(model: Forward, clock: Callable[[], float]) -> ProbeForward:
    """Return the calls of a model; the result keeps them."""

    def guarded(act: Callable[..., object], *arguments: Any) -> int:
        try:
            act(*arguments)
        except Exception:
            return 9
        return 0

    return ProbeForward(
        model.spec.vocab_size,
        model.spec.head_k,
        model.capacity,
        model.caps.max_pass,
        LENGTH(lambda: model.length),
        REWIND(lambda length: guarded(model.rewind, length)),
        EXTEND(lambda tokens, count: guarded(model.extend, tokens[:count])),
        CLOCK(clock),
    )
