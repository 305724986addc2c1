"""Random sessions within random memory budgets, each in a process that the kernel watches.

Peaks are compared with budgets and plans.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from edgedec.bench.harness.cgroups import Cgroup, cgroup
from edgedec.bench.harness.texts import PROMPTS
from edgedec.core.errors import BackendError, ContextFullError, MemoryBudgetError

_REFUSED, _TOO_LONG = MemoryBudgetError.exit_code, ContextFullError.exit_code
_FILLED = 0.9
_LEAST_CONTEXT = 64
"""Share of the context. Sessions that used more of it tell whether plans are right."""


@dataclass(frozen=True, slots=True)
class RandomSession:
    """One session: its options, budget, plan and peak, in bytes.

    ``used`` is the share of the context that tokens took in the end; ``kills`` counts its processes that the
    kernel ended because of the budget.
    """

    options: tuple[str, ...]
    budget: int
    status: int
    planned: int = 0
    peak: int = 0
    used: float = 0.0
    given_up: tuple[str, ...] = ()
    kills: int = 0

    @property
    def over(self) -> bool:
        return self.peak > self.budget

    @property
    def failed(self) -> bool:
        """Whether it ended otherwise than with a reply, or with a refusal that is no failure."""
        return self.status not in (0, _REFUSED, _TOO_LONG) and not self.killed

    @property
    def killed(self) -> bool:
        return self.status == -signal.SIGKILL or self.kills > 0


@dataclass(slots=True)
class SessionsReport:
    """All sessions. ``watched``: the reason why the kernel could not enforce budgets; "" if it did."""

    model: str
    watched: str
    sessions: list[RandomSession] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """Measured by planned peak of the sessions that filled their context, smallest first."""
        return sorted(run.peak / run.planned for run in self.sessions if run.planned and run.used >= _FILLED)


@dataclass(frozen=True, slots=True)
class SessionsStudy:
    """Sessions to run: model, drafters to choose from, count, seed, tokens of the longest context."""

    model: str
    drafts: Sequence[str]
    repeat: int
    seed: int = 0
    longest: int = 1024


def random_sessions(study: SessionsStudy) -> SessionsReport:
    """Run sessions with random budgets, contexts, prompts, drafters and sampling.

    Each is ``edgedec generate`` in a process of its own, in a cgroup with its budget where one can be
    made. Budgets lie between a little less than the smallest plan with the session's drafters and a little
    more than the largest. Raises BackendError when the model cannot be planned for.
    """
    dice = random.Random(study.seed)
    missing: list[str] = []
    with cgroup(missing=missing.append) as group:
        report = SessionsReport(study.model, "".join(missing))
        ranges = {draft: _budgets(study.model, draft) for draft in dict.fromkeys(study.drafts)}
        for _ in range(study.repeat):
            share = dice.random()
            context = dice.randint(2 * _LEAST_CONTEXT, study.longest)
            prompt = _prompt(dice, dice.randint(1, context // 2))
            draft, options = _options(dice, study.drafts, context)
            least, most = ranges[draft]
            budget = int(least + share * (most - least))
            report.sessions.append(_run(study.model, budget, options, prompt, group))
    return report


def _options(dice: random.Random, drafts: Sequence[str], context: int) -> tuple[str, tuple[str, ...]]:
    draft = dice.choice(drafts)
    options = ["--draft", draft, "--max-tokens", str(context)]
    if dice.random() < 0.8:
        options += ["--context", str(context)]
    if dice.random() < 0.5:
        options += ["--temperature", "1", "--seed", str(dice.randrange(1000))]
    return draft, tuple(options)


def _prompt(dice: random.Random, words: int) -> str:
    known = " ".join(PROMPTS).split()
    return " ".join(dice.choice(known) for _ in range(words))


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "edgedec.cli.main", *arguments]


def _budgets(model: str, draft: str) -> tuple[float, float]:
    """Return the range of budgets for sessions with these drafters, in bytes."""
    given = _command("plan", "-m", model, "--draft", draft, "--json")
    done = subprocess.run(given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BackendError(f"no plan for {model}: {done.stderr.strip()}")
    stones = json.loads(done.stdout)["milestones"]
    return 0.98 * stones[0]["bytes"], 1.02 * stones[-1]["bytes"]


def _run(
    model: str, budget: int, options: tuple[str, ...], prompt: str, group: Cgroup | None
) -> RandomSession:
    given = ("generate", "-m", model, "--raw", "-p", prompt, "--json", "--memory", str(budget), *options)
    if group:
        group.limit(budget)
    enter, before = (group.enter, group.kills()) if group else (None, 0)
    done = subprocess.run(_command(*given), capture_output=True, text=True, check=False, preexec_fn=enter)
    kills = group.kills() - before if group else 0
    if done.returncode:
        return RandomSession(options, budget, done.returncode, kills=kills)
    stats = json.loads(done.stdout)["stats"]
    memory, said = stats["memory"], stats["completion_tokens"]
    return RandomSession(
        options,
        budget,
        0,
        planned=memory["planned_bytes"],
        peak=stats["peak_rss_bytes"],
        used=(stats["prompt_tokens"] + said) / stats["context"],
        given_up=tuple(memory["given_up"]),
        kills=kills,
    )
