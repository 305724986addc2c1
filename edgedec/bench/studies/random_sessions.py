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
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from edgedec.bench.harness.control_group import ControlGroup, control_group
from edgedec.bench.harness.runtimes import EDGEDEC
from edgedec.bench.harness.saved_lines import SavedLines
from edgedec.bench.harness.texts import PROMPTS
from edgedec.bench.studies.energies import Energies
from edgedec.bench.studies.reply_energies import ReplyEnergy, energies_of_stats
from edgedec.core.errors import BackendError, ContextFullError, MemoryBudgetError
from edgedec.core.progress import Progress
from edgedec.memory.plan import LEAST_CONTEXT

_REFUSED, _TOO_LONG = MemoryBudgetError.exit_code, ContextFullError.exit_code
_FILLED = 0.9
"""Share of the context. Sessions that used more of it tell whether plans are right."""


@dataclass(frozen=True, slots=True)
class RandomSession:
    """One session: its options, budget, plan and peak, in bytes.

    ``used`` is the share of the context that tokens took in the end; ``kills`` counts its processes that the
    kernel ended because of the budget. ``energy`` is ``stats.energy`` of the reply; None where it has none,
    as in files that were saved without it.
    """

    options: tuple[str, ...]
    budget: int
    status: int
    planned: int = 0
    peak: int = 0
    used: float = 0.0
    given_up: tuple[str, ...] = ()
    kills: int = 0
    completion_tokens: int = 0
    energy: dict[str, Any] | None = None

    @property
    def reply_energy(self) -> ReplyEnergy | None:
        """The joules of decoding; None for a session that did not tell them. Raises as ``ReplyEnergy.of``."""
        return ReplyEnergy.of(self.energy, self.completion_tokens)

    @property
    def over(self) -> bool:
        return self.peak > self.budget

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

    @property
    def energies(self) -> Energies:
        """Joules a token of decoding, over all sessions that tell them."""
        return energies_of_stats({EDGEDEC: [run.reply_energy for run in self.sessions]})

    def as_json(self) -> dict[str, Any]:
        ratios = self.ratios
        return {
            "model": self.model,
            "enforced": not self.watched,
            "watched_because": self.watched or None,
            "runs": len(self.sessions),
            "over": sum(run.over for run in self.sessions),
            "killed": sum(run.killed for run in self.sessions),
            "refused": sum(run.status == _REFUSED for run in self.sessions),
            "too_long": sum(run.status == _TOO_LONG for run in self.sessions),
            "failed": sum(run.status not in (0, _REFUSED, _TOO_LONG) for run in self.sessions),
            "filled": len(ratios),
            "measured_over_planned": [ratios[0], ratios[len(ratios) // 2], ratios[-1]] if ratios else None,
            "energy": self.energies.as_json(),
            "sessions": [asdict(run) for run in self.sessions],
        }


@dataclass(frozen=True, slots=True)
class SessionsStudy:
    """Sessions to run: model, drafters to choose from, count, seed, tokens of the longest context."""

    model: str
    drafts: Sequence[str]
    repeat: int
    seed: int = 0
    longest: int = 1024


def random_sessions(
    study: SessionsStudy, progress: Progress, saved: SavedLines | None = None
) -> SessionsReport:
    """Run sessions with random budgets, contexts, prompts, drafters and sampling.

    Each is ``edgedec generate`` in a process of its own, in a control group with its budget where one can be
    made. Budgets lie between a little less than the smallest plan with the session's drafters and a little
    more than the largest. Each is appended to ``saved`` when it ends, and those it holds are not run again.
    Raises BackendError when the model cannot be planned for, and the errors of ``SavedLines``.
    """
    dice = random.Random(study.seed)
    known: list[RandomSession] = []
    if saved:
        saved.resume(lambda line: known.append(_read(line)))
    missing: list[str] = []
    with control_group(missing=missing.append) as group:
        report = SessionsReport(study.model, "".join(missing))
        ranges = {draft: _budgets(study.model, draft) for draft in dict.fromkeys(study.drafts)}
        for number in range(study.repeat):
            progress("sessions", number, study.repeat)
            share = dice.random()
            context = dice.randint(2 * LEAST_CONTEXT, study.longest)
            prompt = _prompt(dice, dice.randint(1, context // 2))
            draft, options = _options(dice, study.drafts, context)
            least, most = ranges[draft]
            budget = int(least + share * (most - least))
            if number < len(known):
                report.sessions.append(known[number])
                continue
            report.sessions.append(_run(study.model, budget, options, prompt, group))
            if saved:
                saved.append(asdict(report.sessions[-1]))
        progress("sessions", study.repeat, study.repeat)
    return report


def _read(line: dict[str, Any]) -> RandomSession:
    """Read a saved session. Raises TypeError for fields that are missing, unknown or mistyped."""
    session = RandomSession(**line)
    sizes = (session.budget, session.planned, session.peak)
    counts = (*sizes, session.status, session.kills, session.completion_tokens)
    if not all(isinstance(count, int) for count in counts) or not isinstance(session.used, (int, float)):
        raise TypeError("a figure is no number")
    _ = session.reply_energy  # raises for fields that are missing or mistyped
    return replace(session, options=tuple(session.options), given_up=tuple(session.given_up))


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
    model: str, budget: int, options: tuple[str, ...], prompt: str, group: ControlGroup | None
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
        completion_tokens=said,
        energy=stats.get("energy"),
    )
