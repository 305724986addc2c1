"""The runner of every study: cases that sides answer in turns, each side in a process of its own.

A study is data (cases and sides), one request that measures (``ask``), and figures made of the rows. Rows are
kept in a journal, so a study that was stopped goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import field, replace
from typing import Any, Generic, TypeVar

from edgedec.bench.harness.energy import EnergyProbe
from edgedec.bench.harness.journal import Journal, JournalRow, Key
from edgedec.bench.harness.memory_levels import Level
from edgedec.bench.harness.pairing import rotated
from edgedec.bench.harness.runtimes import EDGEDEC
from edgedec.bench.harness.worker import Side, Worker
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass

PLAIN = EDGEDEC
"""The side that decodes plainly, whose tokens the others must give."""
OFF = "off"


@dataclass(frozen=True, slots=True)
class StudySide:
    """One side: a process, which may serve several sides, and a drafter set there.

    ``arguments`` are added to each of its requests. ``level`` is the memory level of its process. ``cold``: a
    process is started for each question, so drafters and their control have seen nothing before.
    """

    name: str
    process: Side
    mode: str = OFF
    arguments: Mapping[str, Any] = field(default_factory=dict)
    level: Level | None = None
    cold: bool = False

    @property
    def ours(self) -> bool:
        return self.name == PLAIN or self.name.startswith(f"{PLAIN}+")

    @classmethod
    def of(cls, process: Side) -> StudySide:
        """Return the only side of a process."""
        return cls(process.name, process)


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that all sides are asked. ``turn``: its number, by which another side begins each time.

    ``key`` begins with the question that it belongs to.
    """

    key: tuple[str | int, ...]
    turn: int = 0
    data: Any = None


@dataclass(frozen=True, slots=True)
class StudyRow(JournalRow):
    """The answer of one side to one case as the process gave it."""

    case: tuple[str | int, ...]
    side: str
    took: dict[str, Any]

    @property
    def key(self) -> Key:
        return *self.case, self.side


R = TypeVar("R", bound=JournalRow)


class OpenSide:
    """An open process. ``facts`` are those that it reported when it loaded its model."""

    def __init__(self, worker: Worker, facts: Mapping[str, Any], probe: EnergyProbe | None = None) -> None:
        self.worker, self.facts, self._probe = worker, facts, probe

    def request(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Send one request; see ``Worker.request``."""
        return self.worker.request(op, **arguments)

    def metered(self, op: str, seconds: str | float, **arguments: Any) -> dict[str, Any]:
        """Send a request; its result gets ``joules`` and ``meter`` where they can be measured.

        ``seconds``: the last part of its time that counts, or the name of the result that tells it.
        """
        if self._probe is None:
            return self.request(op, **arguments)
        with self._probe.watch() as watch:
            took = self.request(op, **arguments)
        joules = watch.last(took[seconds] if isinstance(seconds, str) else seconds)
        return took if joules is None else {**took, "joules": joules, "meter": self._probe.meter}


Opened = Callable[[StudySide], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study(Generic[R]):
    """Cases, sides, and how a side is asked.

    - ``cases``: made one by one, after all rows of the one before, which they may depend on.
    - ``ask``: measures; None leaves the row out.
    - ``warm``: what a process does once before it is asked; a cold side's does nothing.
    - ``first``: sides whose processes open before the first case, in this order; others when they are needed.
    - ``open``: opens the host of a side in another way than as a process of its own.
    """

    sides: Sequence[StudySide]
    cases: Iterable[Case]
    total: int
    ask: Callable[[Any, Case, StudySide], R | None]
    warm: Callable[[Any, Case, StudySide], None] = lambda host, case, side: None
    first: Sequence[StudySide] = ()
    energy: EnergyProbe | None = None
    open: Opened | None = None


def run_study(study: Study[R], journal: Journal[R], progress: Progress) -> Journal[R]:
    """Add the rows that ``journal`` lacks; sides take turns on each case.

    Processes are started only for sides with something left to answer. Raises the errors of ``Worker``, and
    StorageError.
    """
    total, done = study.total * len(study.sides), 0
    with ExitStack() as stack:
        hosts = _Hosts(study, stack, journal, progress)
        for case in study.cases:
            missing = [side for side in study.sides if (*case.key, side.name) not in journal.answers]
            for side in (one for one in study.first if one in missing):
                hosts.host(side, case)
            for side in rotated(study.sides, case.turn):
                progress("measuring", done, total)
                if side in missing and (row := study.ask(hosts.host(side, case), case, side)) is not None:
                    journal.add(row)
                done += 1
    progress("measuring", total, total)
    return journal


def run_alone(study: Study[R], journal: Journal[R], progress: Progress) -> Journal[R]:
    """Run the sides one after the other: the process of one ends before that of the next begins."""
    cases = list(study.cases)
    for number, side in enumerate(study.sides):
        progress(side.name, number, len(study.sides))
        run_study(replace(study, sides=(side,), cases=cases), journal, lambda stage, done, total: None)
    progress("done", len(study.sides), len(study.sides))
    return journal


@contextmanager
def opened(side: StudySide, probe: EnergyProbe | None = None) -> Iterator[OpenSide]:
    """Open a side's process. One whose budget is too small has ``refused`` in its facts, and has ended."""
    with Worker(side.process) as worker:
        facts = worker.open()
        if "refused" in facts:
            worker.kill()  # it would only take memory
        yield OpenSide(worker, facts, probe)


class _Hosts:
    """The processes, each started when it is needed first. Those of cold sides end with their question."""

    def __init__(self, study: Study[R], stack: ExitStack, journal: Journal[R], progress: Progress) -> None:
        self._study, self._stack, self._journal, self._progress = study, stack, journal, progress
        self._open: Opened = study.open or (lambda side: opened(side, study.energy))
        self._known: dict[str, _Host] = {}

    def host(self, side: StudySide, case: Case) -> Any:
        name, question = side.process.name, case.key[0]
        known = self._known.get(name)
        if known and side.cold and known.question != question:
            known.stack.close()
            known = None
        if known is None:
            self._progress(f"loading {name}", 0, 1)
            stack = self._stack.enter_context(ExitStack())
            known = self._known[name] = _Host(stack.enter_context(self._open(side)), question, stack)
            self._journal.add_opened(name, known.opened.facts)
            if "refused" not in known.opened.facts and not side.cold:
                self._study.warm(known.opened, case, side)
            self._progress(f"loading {name}", 1, 1)
        return known.opened


@dataclass(frozen=True, slots=True)
class _Host:
    """An open process, the question that it was started for, and what ends it."""

    opened: Any
    question: str | int
    stack: ExitStack
