"""Right answers, share of the large model and cost of two models that take turns.

Sides are both models alone, thresholds, and for each of these random switching: on every problem the large
model gets, in pieces chosen at random, the share that it had there under the thresholds. Replies are greedy.
Problems come one after another, each on all sides, so that a study that was stopped early has whole rows.
Intervals are Wilson's (1927) for 95 %.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgedec.bench.harness.journal import Journal, Key
from edgedec.bench.harness.pairing import wilson
from edgedec.bench.harness.study import Case, Study, StudySide, run_study
from edgedec.bench.harness.worker import Side
from edgedec.bench.studies.switch_problems import SwitchProblem
from edgedec.control.switching import EntropySwitching, RandomSwitching, Switching, SwitchRule
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.metrics.measures import Energy
    from edgedec.session.chat import Chat
    from edgedec.session.reply import Reply
    from edgedec.switch.engine import SwitchedEngine

SMALL, LARGE = "small alone", "large alone"
RANDOM = "random for "


@dataclass(frozen=True, slots=True)
class SwitchOutcome:
    """One reply; seconds and joules are those of all of it, its prompt included.

    ``cpu_s``: processor time of all threads. ``source``: the meter of ``joules``, or the model of the
    estimate between ``low`` and ``high``.
    """

    problem: str
    side: str
    text: str
    right: bool
    small_tokens: int
    large_tokens: int
    switches: int
    catch_up_tokens: int
    seconds: float
    cpu_s: float
    joules: float | None = None
    low: float | None = None
    high: float | None = None
    source: str = ""

    @property
    def key(self) -> Key:
        return self.problem, self.side

    @property
    def share(self) -> float:
        """Share of the tokens that the large model wrote, 0 to 1."""
        return self.large_tokens / max(self.small_tokens + self.large_tokens, 1)


@dataclass(frozen=True, slots=True)
class SideResult:
    """All replies of one side; ``switches`` and what follows are means of a reply.

    ``joules`` is None where replies were measured by different sources.
    """

    side: str
    right: int
    asked: int
    share: float
    switches: float
    catch_up_tokens: float
    seconds: float
    cpu_s: float
    joules: float | None
    low: float | None
    high: float | None
    source: str

    @classmethod
    def of(cls, side: str, found: Sequence[SwitchOutcome]) -> SideResult:
        """Sum up the replies of a side; one at least."""

        def mean(values: Sequence[float | None]) -> float | None:
            known = [value for value in values if value is not None]
            return sum(known) / len(known) if len(known) == len(values) and same else None

        sources = {one.source for one in found}
        same = len(sources) == 1
        tokens = sum(one.small_tokens + one.large_tokens for one in found)
        return cls(
            side,
            sum(one.right for one in found),
            len(found),
            sum(one.large_tokens for one in found) / max(tokens, 1),
            sum(one.switches for one in found) / len(found),
            sum(one.catch_up_tokens for one in found) / len(found),
            sum(one.seconds for one in found) / len(found),
            sum(one.cpu_s for one in found) / len(found),
            mean([one.joules for one in found]),
            mean([one.low for one in found]),
            mean([one.high for one in found]),
            sources.pop() if same else "",
        )

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the share of right answers."""
        return wilson(self.right, self.asked)

    @property
    def estimated(self) -> bool:
        """Whether ``joules`` is an estimate."""
        return self.low is not None

    def as_json(self) -> dict[str, object]:
        """Return the figures as JSON fields."""
        low, high = self.interval
        fields = asdict(self)
        fields["joules_low"], fields["joules_high"] = fields.pop("low"), fields.pop("high")
        fields |= {"accuracy": self.right / self.asked, "low": low, "high": high, "estimated": self.estimated}
        return {name: round(one, 4) if isinstance(one, float) else one for name, one in fields.items()}


def read_outcome(fields: Mapping[str, Any]) -> SwitchOutcome:
    """Read an outcome. Raises TypeError for a field that is missing, unknown or mistyped."""
    outcome = SwitchOutcome(**fields)
    counts = (outcome.small_tokens, outcome.large_tokens, outcome.switches)
    if not all(isinstance(one, (int, float)) for one in (*counts, outcome.seconds, outcome.cpu_s)):
        raise TypeError("a figure is no number")
    return outcome


_HERE = Side("both models", Path(), Path())


@dataclass(frozen=True, slots=True)
class _Here:
    """This process, in which both models are."""

    facts: Mapping[str, Any] = field(default_factory=dict)


class SwitchStudy:
    """Asks problems of both models alone, with thresholds, and with random switching of the same shares."""

    def __init__(
        self,
        chat: Chat,
        engine: SwitchedEngine,
        problems: Sequence[SwitchProblem],
        journal: Journal[SwitchOutcome],
        energy: Callable[[Reply], Energy | None],
    ) -> None:
        self._chat = chat
        self._engine = engine
        self._problems = problems
        self._journal = journal
        self._energy = energy

    def run(self, rules: Sequence[SwitchRule], progress: Progress) -> None:
        """Ask every problem of every side that has not answered it, in the order of the sides."""
        sides = _sides(rules)

        def ask(host: _Here, case: Case, side: StudySide) -> SwitchOutcome:
            return self._asked(case.data, side.name, self._switching(case.data, side.name, sides))

        study = Study(
            sides=[StudySide(name, _HERE) for name in _names(sides)],
            cases=[Case((problem.key,), 0, problem) for problem in self._problems],
            total=len(self._problems),
            ask=ask,
            open=lambda side: nullcontext(_Here()),
        )
        run_study(study, self._journal, progress)

    def results(self, rules: Sequence[SwitchRule]) -> dict[str, list[SideResult]]:
        """Return the results by task, of the problems that all sides answered."""
        names = _names(_sides(rules))
        found: dict[str, list[SideResult]] = {}
        for task in dict.fromkeys(problem.task for problem in self._problems):
            keys = [one.key for one in self._problems if one.task == task]
            whole = [key for key in keys if all((key, side) in self._journal.answers for side in names)]
            if whole:
                found[task] = [
                    SideResult.of(side, [self._journal.answers[key, side] for key in whole]) for side in names
                ]
        return found

    def _switching(self, problem: SwitchProblem, side: str, sides: dict[str, SwitchRule]) -> Switching:
        """Return the rule of a side; chance has the share that its thresholds had on this problem."""
        if side in sides:
            return EntropySwitching(sides[side])
        ruled = side.removeprefix(RANDOM)
        share = self._journal.answers[problem.key, ruled].share
        return RandomSwitching(share, sides[ruled].least_run, seed=problem.seed)

    def _asked(self, problem: SwitchProblem, side: str, switching: Switching) -> SwitchOutcome:
        self._engine.forget()
        self._chat.reset()
        self._engine.decide_by(lambda: switching)
        began, cpu = time.perf_counter(), time.process_time()
        reply = self._chat.reply(problem.prompt, final=True)
        text = reply.read()
        seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        record, energy = self._engine.switched, self._energy(reply)
        return SwitchOutcome(
            problem.key,
            side,
            text,
            problem.right(text),
            record.of(record.small).tokens,
            record.of(record.large).tokens,
            record.switches,
            record.catch_up_tokens,
            round(seconds, 4),
            round(cpu_s, 4),
            energy.joules if energy else None,
            energy.low if energy else None,
            energy.high if energy else None,
            energy.source if energy else "",
        )


def _sides(rules: Sequence[SwitchRule]) -> dict[str, SwitchRule]:
    alone = {SMALL: SwitchRule(0.0, math.inf), LARGE: SwitchRule(-1.0, -1.0)}
    return alone | {f"{rule.low_bits:g},{rule.high_bits:g}": rule for rule in rules}


def _names(sides: dict[str, SwitchRule]) -> list[str]:
    return [*sides, *(RANDOM + name for name in sides if name not in (SMALL, LARGE))]
