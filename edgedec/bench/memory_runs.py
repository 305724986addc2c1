"""Is a budget of memory kept? Random sessions in processes of their own, watched by the kernel."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from edgedec.bench.control_group import ControlGroup, control_group
from edgedec.bench.texts import PROMPTS
from edgedec.core.errors import BackendError, ContextFullError, MemoryBudgetError
from edgedec.memory.plan import LEAST_CONTEXT

_REFUSED, _TOO_LONG = MemoryBudgetError.exit_code, ContextFullError.exit_code
_FULL = 0.9
"""Of the context: sessions that used so much of it say whether predictions are right."""


@dataclass(frozen=True, slots=True)
class MemoryRun:
    """One session: what it was given, what was planned, and the most that the kernel saw. Bytes."""

    options: tuple[str, ...]
    budget: int
    status: int
    planned: int = 0
    peak: int = 0
    used: float = 0.0
    """Share of the context that tokens took in the end."""
    given_up: tuple[str, ...] = ()
    kills: int = 0
    """Processes of the session that the kernel ended because of its budget."""

    @property
    def over(self) -> bool:
        return self.peak > self.budget

    @property
    def killed(self) -> bool:
        return self.status == -signal.SIGKILL or self.kills > 0


@dataclass(slots=True)
class MemoryReport:
    """All runs; ``watched``: why the kernel could not hold each to its budget, and their peaks were only
    looked at; "" if it did.
    """

    model: str
    watched: str
    runs: list[MemoryRun] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """Measured over planned peak, of the sessions that filled their context, smallest first."""
        return sorted(run.peak / run.planned for run in self.runs if run.planned and run.used >= _FULL)

    def as_json(self) -> dict[str, Any]:
        ratios = self.ratios
        return {
            "model": self.model,
            "enforced": not self.watched,
            "watched_because": self.watched or None,
            "runs": len(self.runs),
            "over": sum(run.over for run in self.runs),
            "killed": sum(run.killed for run in self.runs),
            "refused": sum(run.status == _REFUSED for run in self.runs),
            "too_long": sum(run.status == _TOO_LONG for run in self.runs),
            "failed": sum(run.status not in (0, _REFUSED, _TOO_LONG) for run in self.runs),
            "filled": len(ratios),
            "measured_over_planned": [ratios[0], ratios[len(ratios) // 2], ratios[-1]] if ratios else None,
            "sessions": [asdict(run) for run in self.runs],
        }


def random_runs(
    model: str,
    drafts: Sequence[str],
    count: int,
    seed: int,
    *,
    longest: int = 1024,
    done: Callable[[int], None] = lambda count: None,
) -> MemoryReport:
    """``count`` random sessions of ``model``: budgets, contexts, prompts, drafts, sampling.

    Each is ``edgedec generate`` in a process of its own, which a control group holds to its budget where one
    can be made. Raises BackendError when the model does not plan.
    """
    dice = random.Random(seed)
    missing: list[str] = []
    with control_group(missing=missing.append) as group:
        report = MemoryReport(model, "".join(missing))
        stones = _plan(model)["milestones"]
        smallest, largest = stones[0]["bytes"], stones[-1]["bytes"]
        for number in range(count):
            budget = int(dice.uniform(0.98 * smallest, 1.02 * largest))
            context = dice.randint(2 * LEAST_CONTEXT, longest)
            prompt = _prompt(dice, dice.randint(1, context // 2))
            report.runs.append(_run(model, budget, _options(dice, drafts, context), prompt, group))
            done(number + 1)
    return report


def _options(dice: random.Random, drafts: Sequence[str], context: int) -> tuple[str, ...]:
    options = ["--draft", dice.choice(drafts), "--max-tokens", str(context)]
    if dice.random() < 0.8:
        options += ["--context", str(context)]
    if dice.random() < 0.5:
        options += ["--temperature", "1", "--seed", str(dice.randrange(1000))]
    return tuple(options)


def _prompt(dice: random.Random, words: int) -> str:
    known = " ".join(PROMPTS).split()
    return " ".join(dice.choice(known) for _ in range(words))


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "edgedec.cli.main", *arguments]


def _plan(model: str) -> dict[str, Any]:
    done = subprocess.run(
        _command("plan", "-m", model, "--json"), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BackendError(f"no plan for {model}: {done.stderr.strip()}")
    plan: dict[str, Any] = json.loads(done.stdout)
    return plan


def _run(
    model: str, budget: int, options: tuple[str, ...], prompt: str, group: ControlGroup | None
) -> MemoryRun:
    given = ("generate", "-m", model, "--raw", "-p", prompt, "--json", "--memory", str(budget), *options)
    if group:
        group.limit(budget)
    enter, before = (group.enter, group.kills()) if group else (None, 0)
    done = subprocess.run(_command(*given), capture_output=True, text=True, check=False, preexec_fn=enter)
    kills = group.kills() - before if group else 0
    if done.returncode:
        return MemoryRun(options, budget, done.returncode, kills=kills)
    stats = json.loads(done.stdout)["stats"]
    memory = stats["memory"]
    used = (stats["prompt_tokens"] + stats["completion_tokens"]) / stats["context"]
    planned, given_up = memory["planned_bytes"], tuple(memory["given_up"])
    return MemoryRun(options, budget, 0, planned, stats["peak_rss_bytes"], used, given_up, kills)
