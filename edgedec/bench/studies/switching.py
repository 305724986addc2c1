"""Right answers, share of the large model and cost of two models that take turns.

Sides are both models alone, thresholds, and for each of these random switching of the same share. Replies are
greedy. Intervals are Wilson's (1927) for 95 %.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.bench.harness.code_problems import CODE_PROBLEMS
from edgedec.bench.harness.sandbox import code_of, passes
from edgedec.bench.studies.quality import last_number, read_problems
from edgedec.control.switching import EntropySwitching, RandomSwitching, Switching, SwitchRule
from edgedec.core.errors import BadFileError, UsageError
from edgedec.core.files import storage_errors
from edgedec.core.progress import Steps

if TYPE_CHECKING:
    from edgedec.session.chat import Chat
    from edgedec.switch.engine import SwitchedEngine

SMALL, LARGE = "small alone", "large alone"
_RANDOM = "random for "
_Z95 = 1.959964


@dataclass(frozen=True, slots=True)
class SwitchProblem:
    """A prompt, and the judgement of a reply's text."""

    key: str
    prompt: str
    right: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class SwitchOutcome:
    """One reply. Seconds are those of the whole reply, its prompt included; ``cpu_s`` of all threads."""

    problem: str
    side: str
    right: bool
    small_tokens: int
    large_tokens: int
    switches: int
    seconds: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class SideResult:
    """All replies of one side."""

    side: str
    right: int
    asked: int
    share: float
    switches: float
    seconds: float
    """Per question."""
    cpu_s: float
    """Per question."""

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the share of right answers."""
        return wilson(self.right, self.asked)

    def as_json(self) -> dict[str, object]:
        """Return the figures as JSON fields."""
        low, high = self.interval
        fields = {**asdict(self), "accuracy": self.right / self.asked, "low": low, "high": high}
        return {name: round(one, 4) if isinstance(one, float) else one for name, one in fields.items()}


class SwitchJournal:
    """Outcomes by problem and side; with a file, each is appended at once, and a later run goes on from it.

    Raises UsageError for a file of other conditions, BadFileError for one that is no journal.
    """

    def __init__(self, path: Path | None, conditions: dict[str, object]) -> None:
        self._path = path
        self.found: dict[tuple[str, str], SwitchOutcome] = {}
        text = json.dumps(conditions, sort_keys=True)
        mark = hashlib.sha256(text.encode()).hexdigest()
        if path is None:
            return
        with storage_errors(str(path)):
            lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            if not lines:
                path.write_text(json.dumps({"conditions": conditions, "sha256": mark}) + "\n", "utf-8")
        try:
            if lines and json.loads(lines[0])["sha256"] != mark:
                raise UsageError(f"{path} has replies of another study", hint="name another file")
            for line in lines[1:]:
                self._take(SwitchOutcome(**json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise BadFileError(f"{path} is no journal of this study", hint="name another file") from error

    def add(self, outcome: SwitchOutcome) -> None:
        """Keep an outcome. Raises StorageError."""
        self._take(outcome)
        if self._path:
            with storage_errors(str(self._path)), self._path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(asdict(outcome)) + "\n")

    def _take(self, outcome: SwitchOutcome) -> None:
        self.found[outcome.problem, outcome.side] = outcome


def math_problems(path: Path) -> list[SwitchProblem]:
    """Return the questions of a file in the format of GSM8K. Raises NotFoundError, BadFileError."""

    def judge(answer: str) -> Callable[[str], bool]:
        return lambda text: last_number(text) == answer

    return [SwitchProblem(one.key, one.text, judge(one.answer)) for one in read_problems(path)]


def code_problems() -> list[SwitchProblem]:
    """Return the programming problems; code is run in a sandbox."""

    def judge(tests: Sequence[str]) -> Callable[[str], bool]:
        return lambda text: passes(code_of(text), tests)

    return [SwitchProblem(one.key, one.prompt, judge(one.tests)) for one in CODE_PROBLEMS]


class SwitchStudy:
    """Asks problems of both models alone, with thresholds, and with random switching of the same shares."""

    def __init__(
        self, chat: Chat, engine: SwitchedEngine, problems: Sequence[SwitchProblem], journal: SwitchJournal
    ) -> None:
        self._chat = chat
        self._engine = engine
        self._problems = problems
        self._journal = journal

    def run(self, rules: Sequence[SwitchRule], progress: Steps) -> list[SideResult]:
        """Ask every side all problems, and return their results in that order."""
        total = (2 + 2 * len(rules)) * len(self._problems)
        done = 0

        def ask(side: str, decide: Callable[[int], Switching]) -> SideResult:
            nonlocal done
            for number, problem in enumerate(self._problems):
                if (problem.key, side) not in self._journal.found:
                    self._journal.add(self._asked(problem, side, decide(number)))
                done += 1
                progress(done, total)
            return self.result(side)

        alone = {SMALL: SwitchRule(0.0, math.inf), LARGE: SwitchRule(-1.0, -1.0)}
        named = alone | {f"{rule.low_bits:g},{rule.high_bits:g}": rule for rule in rules}
        results = [ask(side, _by_entropy(rule)) for side, rule in named.items()]
        chance = [ask(_RANDOM + one.side, _at_random(one.share, rules[0])) for one in results[2:]]
        return results + chance

    def result(self, side: str) -> SideResult:
        """Return the result of a side that was asked everything."""
        found = [self._journal.found[problem.key, side] for problem in self._problems]
        count = len(found)
        tokens = sum(one.small_tokens + one.large_tokens for one in found)
        return SideResult(
            side,
            sum(one.right for one in found),
            count,
            sum(one.large_tokens for one in found) / max(tokens, 1),
            sum(one.switches for one in found) / count,
            sum(one.seconds for one in found) / count,
            sum(one.cpu_s for one in found) / count,
        )

    def _asked(self, problem: SwitchProblem, side: str, switching: Switching) -> SwitchOutcome:
        self._engine.forget()
        self._chat.reset()
        self._engine.decide = lambda: switching
        began, cpu = time.perf_counter(), time.process_time()
        text = self._chat.reply(problem.prompt, final=True).read()
        seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        record = self._engine.record
        return SwitchOutcome(
            problem.key,
            side,
            problem.right(text),
            record.of(record.small).tokens,
            record.of(record.large).tokens,
            record.switches,
            round(seconds, 4),
            round(cpu_s, 4),
        )


def _by_entropy(rule: SwitchRule) -> Callable[[int], Switching]:
    return lambda number: EntropySwitching(rule)


def _at_random(share: float, rule: SwitchRule) -> Callable[[int], Switching]:
    return lambda number: RandomSwitching(share, rule.least_run, seed=number)


def wilson(right: int, asked: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share."""
    if not asked:
        return 0.0, 1.0
    share, square = right / asked, _Z95 * _Z95 / asked
    middle = (share + square / 2) / (1 + square)
    half = _Z95 * math.sqrt(share * (1 - share) / asked + square / (4 * asked)) / (1 + square)
    return max(middle - half, 0.0), min(middle + half, 1.0)
