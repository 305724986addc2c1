"""The native engine over a model and a clock that are played here, and Python's engine over the same."""

from __future__ import annotations

import ctypes
import json
import random
from collections.abc import Callable, Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_void_p,
)
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from edgedec.backends.fake import MarkovForward, _mix
from edgedec.control import CostCurve
from edgedec.core.forward import Forward
from edgedec.core.rows import LAST_ROW, HeadRows, Rows
from edgedec.core.tree import DraftTree
from edgedec.decode.engine import Engine, PassRecord
from edgedec.decode.passes import PassTimer
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter, Lookup, ModelDrafter, Recycling, SameVocabulary
from edgedec.draft.exit import ExitDrafter
from edgedec.draft.trimmed import TrimmedHead
from edgedec.memory import CacheBook, PlannedPass, StateBook
from edgedec.native import probe
from edgedec.native.sampling import struct_of
from edgedec.native.structs import CSampling
from edgedec.sampling import DrawParams

DRAFTERS = {"lookup": Lookup, "recycling": Recycling}
FINISHES = (None, "stop", "length")
LENGTH = CFUNCTYPE(c_int64)
TO_LENGTH = CFUNCTYPE(c_int64, c_int64)
REWIND = CFUNCTYPE(c_int, c_int64)
INTS = POINTER(c_int)
KEEP = CFUNCTYPE(c_int, INTS, c_size_t)
EXTEND = CFUNCTYPE(
    c_int, POINTER(c_int32), c_size_t, INTS, c_size_t, INTS, c_size_t, c_int, c_double, c_void_p
)
CLOCK = CFUNCTYPE(c_double)
PEEK = CFUNCTYPE(c_int, c_int32, c_int, POINTER(c_int64), c_size_t, c_void_p)
PROGRESS = CFUNCTYPE(c_int, c_int64, c_int64)
STEP = CFUNCTYPE(c_int, c_int32, c_int64, c_int, c_int)


class ProbeForward(Structure):
    _fields_: ClassVar = [
        *((name, c_int64) for name in ("vocab_size", "head_k", "capacity", "max_pass", "most_undone")),
        ("length", LENGTH),
        ("reachable", TO_LENGTH),
        ("rewind", REWIND),
        ("keep_path", KEEP),
        ("extend", EXTEND),
        ("clock", CLOCK),
        ("peek", PEEK),
    ]


class ProbeListener(Structure):
    _fields_: ClassVar = [("progress", PROGRESS), ("step", STEP)]


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


@dataclass(frozen=True)
class Case:
    """A run: a model, drafters, a clock, and replies to be made."""

    seed: int
    model: Callable[[Ticks], Forward]
    drafters: tuple[str, ...] = ("lookup", "recycling")
    limit: int = 15
    costs: dict[int, float] | None = None
    old: bool = False
    draft: Callable[[Ticks], Forward] | None = None
    """The model of the drafter "small"."""


@dataclass(frozen=True)
class Request:
    """A reply to be made; ``cancel``: tokens after which the listener ends it, 0: in the prompt."""

    prompt: list[int]
    params: DrawParams
    max_tokens: int
    stop_ids: frozenset[int] = frozenset()
    cancel: int | None = None


@dataclass
class Outcome:
    """All that a reply showed."""

    steps: list[tuple[int, int, str | None, str | None]] = field(default_factory=list)
    progress: list[tuple[int, int]] = field(default_factory=list)
    passes: list[Any] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    tally: list[float] = field(default_factory=list)
    efforts: list[list[float]] = field(default_factory=list)
    costs: list[list[float]] = field(default_factory=list)
    rewinds: list[int] = field(default_factory=list)
    error: bool = False


class NativeEngine:
    """The native engine over a played model."""

    def __init__(self, case: Case) -> None:
        self._case, clock = case, Ticks(case.seed)
        self._model = case.model(clock)
        self._kept = calls_of(self._model, clock)
        self._draft = calls_of(case.draft(clock), clock) if case.draft else None
        costs = case.costs or {}
        sizes = (c_int * len(costs))(*costs)
        seconds = (c_double * len(costs))(*costs.values())
        new = probe.function(
            "engine",
            c_void_p,
            POINTER(ProbeForward),
            POINTER(ProbeForward),
            c_char_p,
            c_int,
            INTS,
            POINTER(c_double),
            c_size_t,
            c_int,
        )
        names = ",".join(case.drafters).encode()
        models = ctypes.byref(self._kept), self._draft and ctypes.byref(self._draft)
        self._handle = new(*models, names, case.limit, sizes, seconds, len(costs), case.old)
        assert self._handle

    def close(self) -> None:
        probe.function("engine_close", None, c_void_p)(self._handle)

    def run(self, request: Request) -> Outcome:
        found = Outcome()

        def progress(done: int, total: int) -> int:
            found.progress.append((done, total))
            return request.cancel != 0

        def step(token: int, position: int, finish: int, source: int) -> int:
            name = None if source < 0 else self._case.drafters[source]
            found.steps.append((token, position, FINISHES[finish], name))
            return len(found.steps) != request.cancel

        generate = probe.function(
            "engine_generate", c_int, c_void_p, POINTER(c_int32), c_size_t, POINTER(CSampling), c_int64,
            POINTER(c_int32), c_size_t, POINTER(ProbeListener),
        )  # fmt: skip
        stops = (c_int32 * len(request.stop_ids))(*request.stop_ids)
        prompt = (c_int32 * len(request.prompt))(*request.prompt)
        listener = ProbeListener(PROGRESS(progress), STEP(step))
        params = struct_of(request.params)
        code = generate(
            self._handle, prompt, len(prompt), ctypes.byref(params), request.max_tokens, stops, len(stops),
            ctypes.byref(listener),
        )  # fmt: skip
        found.error = code != 0
        record = json.loads(probe.text_function("engine_record", c_void_p)(self._handle))
        for start, fed, committed, seconds, tokens, parents, sources, path in record["passes"]:
            names = [self._case.drafters[source] for source in sources]
            found.passes.append([start, fed, committed, seconds, tokens, parents, names, path])
        found.committed = record["committed"]
        found.tally, found.efforts = record.get("tally", []), record.get("efforts", [])
        found.costs = record.get("costs", [])
        found.rewinds = taken(self._model)
        return found


class PythonEngine:
    """Python's engine over the same model."""

    def __init__(self, case: Case) -> None:
        clock, self._passes, self._case = Ticks(case.seed), [], case
        self._curve = CostCurve(case.costs, old=case.old) if case.costs else None
        model = case.model(clock)
        drafters = [self._drafter(name, model, clock) for name in case.drafters]
        self._speculation = (
            Speculation(drafters, self._curve, limit=case.limit, clock=clock) if drafters else None
        )
        self._engine = Engine(
            model, speculation=self._speculation, observe=self._passes.append, timer=PassTimer(clock)
        )
        taken(model)  # an engine empties the cache that it is made with

    def _drafter(self, name: str, model: Forward, clock: Ticks) -> Drafter:
        if name in DRAFTERS:
            return DRAFTERS[name]()
        if name != "small":
            kind, _, exit = name.partition("-")
            even = np.arange(0, model.spec.vocab_size, 2, dtype=np.int64)
            made = ExitDrafter(model, int(exit), TrimmedHead(even, 0.5, 0.5) if kind == "trim" else None, {7})
            made.name = name
            return made
        assert self._case.draft
        small = self._case.draft(clock)
        return ModelDrafter(name, small, SameVocabulary(min(model.spec.vocab_size, small.spec.vocab_size)))

    def run(self, request: Request) -> Outcome:
        found = Outcome()
        cancelled: list[bool] = []

        def progress(done: int, total: int) -> None:
            found.progress.append((done, total))
            if request.cancel == 0:
                cancelled.append(True)
                raise InterruptedError

        try:
            steps = self._engine.generate(
                request.prompt,
                request.params,
                max_tokens=request.max_tokens,
                stop_ids=request.stop_ids,
                progress=progress,
            )
            for step in steps:
                found.steps.append((step.token, step.position, step.finish_reason, step.source))
                if len(found.steps) == request.cancel:
                    steps.close()
        except Exception:
            found.error = not cancelled
        found.passes = [_told(record) for record in self._passes]
        self._passes.clear()
        found.committed = list(self._engine.committed)
        if self._speculation:
            tally = self._speculation.tally
            found.tally = [tally.rounds, tally.committed, tally.drafted, tally.accepted, tally.draft_s]
            found.tally += [tally.verify_s, tally.forecast.passes_s, tally.forecast.plain_s]
            for name in self._case.drafters:
                one = tally.effort(name)
                found.efforts.append([one.queries, one.proposed, one.draft_s, one.learn_s])
        if self._curve and self._speculation:
            found.costs = [[tokens, seconds] for tokens, seconds in self._curve.measured().items()]
        found.rewinds = taken(self._engine._forward)
        return found


def calls_of(model: Forward, clock: Callable[[], float]) -> ProbeForward:
    """Return the calls of a model; the result keeps them."""

    def guarded(act: Callable[[], object]) -> int:
        try:
            act()
        except Exception:
            return 9
        return 0

    def extend(
        tokens: Any, count: int, parents: Any, parent_count: int, rows: Any, row_count: int, full: int,
        temperature: float, head: int,
    ) -> int:  # fmt: skip
        chosen = Rows(tuple(rows[:row_count]), full=bool(full), temperature=temperature)
        given = parents[:parent_count] if parent_count else None
        return guarded(lambda: _fill(head, model.extend(tokens[:count], parents=given, rows=chosen)))

    def peek(token: int, exit: int, keep: Any, keep_count: int, head: int) -> int:
        kept = np.array(keep[:keep_count], np.int64) if keep_count else None
        return guarded(lambda: _fill(head, model.peek([token], exit=exit, keep=kept)))

    return ProbeForward(
        model.spec.vocab_size,
        model.spec.head_k,
        model.capacity,
        model.caps.max_pass,
        model.caps.most_undone,
        LENGTH(lambda: model.length),
        TO_LENGTH(model.reachable),
        REWIND(lambda length: guarded(lambda: model.rewind(length))),
        KEEP(lambda nodes, count: guarded(lambda: model.keep_path(nodes[:count]))),
        EXTEND(extend),
        CLOCK(clock),
        PEEK(peek) if model.caps.exits else PEEK(),
    )


def _fill(head: int, rows: HeadRows) -> None:
    floats, ints = POINTER(ctypes.c_float), POINTER(c_int32)
    fill = probe.function(
        "head", None, c_void_p, c_size_t, c_size_t, c_size_t, floats, ints, floats, floats, floats, c_double
    )
    arrays = [np.ascontiguousarray(one) for one in (rows.values, rows.ids, rows.logsumexp, rows.entropy)]
    values, ids, logsumexp, entropy = (
        one.ctypes.data_as(ints if one.dtype == np.int32 else floats) for one in arrays
    )
    logits = None if rows.logits is None else np.ascontiguousarray(rows.logits)
    width = 0 if logits is None else logits.shape[1]
    whole = None if logits is None else logits.ctypes.data_as(floats)
    fill(head, *rows.ids.shape, width, values, ids, logsumexp, entropy, whole, rows.temperature)


def _told(record: PassRecord) -> list[Any]:
    tree: DraftTree = record.tree
    columns = [list(part) for part in (tree.tokens, tree.parents, tree.sources, record.path)]
    return [record.start, record.fed, record.committed, record.seconds, *columns]


class Habits(MarkovForward):
    """A model that repeats itself: its logits depend on a token and on two bits of what is before it."""

    clock: Ticks | None = None

    def __init__(self, *, capacity: int, most_undone: int = 0, **settings: Any) -> None:
        super().__init__(capacity=capacity, **settings)
        self.rewinds: list[int] = []
        if most_undone:
            self._caps = replace(self._caps, most_undone=most_undone)
            self._book = CacheBook(capacity, states=StateBook(most_undone))

    def rewind(self, length: int) -> None:
        self.rewinds.append(length)
        super().rewind(length)

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        if self.clock:
            self.clock.passed(len(tokens))
        return super().extend(tokens, parents=parents, rows=rows)

    def peek(self, tokens: Sequence[int], **settings: Any) -> HeadRows:
        if self.clock:
            self.clock.passed(0)
        return super().peek(tokens, **settings)

    def _compute(self, done: PlannedPass, tokens: Sequence[int], first: int) -> None:
        for node, token in enumerate(tokens[first:], first):
            parent = done.parents[node]
            slot = done.start + (parent if parent >= 0 else -1)
            before = self._slots[slot] if slot >= 0 else self._seed
            self._slots[done.start + node] = _mix((before & 3) << 20 ^ (token + 1) ^ self._seed)
            self._fed[done.start + node] = token


def taken(model: Forward) -> list[int]:
    """Return the lengths that a model with states was rewound to since the last call."""
    assert isinstance(model, Habits)
    found, model.rewinds = model.rewinds, []
    return found if model.caps.most_undone else []


def small_model(
    seed: int,
    *,
    sharpness: float = 4.0,
    capacity: int = 256,
    max_pass: int = 16,
    vocab_size: int = 24,
    most_undone: int = 0,
) -> Callable[[Ticks], Forward]:
    """Return a maker of a model that repeats itself."""

    def make(clock: Ticks) -> Forward:
        model = Habits(
            seed=seed, sharpness=sharpness, capacity=capacity, max_pass=max_pass, vocab_size=vocab_size,
            most_undone=most_undone,
        )  # fmt: skip
        model.clock = clock
        return model

    return make


def compare(case: Case, requests: Sequence[Request]) -> list[Outcome]:
    """Make the replies with both engines; return what both showed."""
    native, python, found = NativeEngine(case), PythonEngine(case), []
    try:
        for request in requests:
            ours, theirs = native.run(request), python.run(request)
            assert ours == theirs, (case, request)
            found.append(ours)
    finally:
        native.close()
    return found
