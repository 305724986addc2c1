"""Right answers and cost of two models that take turns, beside each of them alone.

Every problem is asked of all sides, one after another, greedily. Figures are of whole replies, the prompt
included.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import field
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from edgedec.bench.harness.pairing import rounded, rounded_or_none, wilson
from edgedec.bench.studies.quality import MathProblem
from edgedec.control.switching import DEFAULT_RULE, EntropySwitching, SwitchRule
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass
from edgedec.switch.engine import SwitchedEngine
from edgedec.text.last_number import last_number

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.session.reply import Reply

SMALL, LARGE, TURNS = "small alone", "large alone", "in turns"
SIDES = {SMALL: SwitchRule(math.inf), LARGE: SwitchRule(-1.0), TURNS: DEFAULT_RULE}
"""The sides, and the threshold of each: at its extremes one model writes everything."""


@dataclass(frozen=True, slots=True)
class SwitchReply:
    """One reply. ``cpu_s``: processor time of all threads; ``joules``: None where nothing is known of them.

    ``source``: the meter of ``joules``, or the model of the estimate.
    """

    right: bool
    small_tokens: int
    large_tokens: int
    switches: int
    seconds: float
    cpu_s: float
    joules: float | None
    source: str
    estimated: bool


@dataclass(slots=True)
class SwitchReport:
    """The replies of each side to the problems that all sides answered."""

    replies: dict[str, list[SwitchReply]] = field(default_factory=lambda: {side: [] for side in SIDES})

    @property
    def asked(self) -> int:
        """Problems that all sides answered."""
        return len(self.replies[TURNS])

    @property
    def source(self) -> str:
        """The source of the joules, and whether they are an estimate, in words; "" without any."""
        one = self.replies[TURNS][0] if self.asked else None
        if one is None or one.joules is None:
            return ""
        return f"{'an estimate, not a measurement' if one.estimated else 'measured'}; {one.source}"

    def as_json(self) -> dict[str, dict[str, object]]:
        """Return the figures of each side; seconds, joules and switches are means of a reply."""
        return {side: self._figures(replies) for side, replies in self.replies.items()} if self.asked else {}

    def _figures(self, replies: Sequence[SwitchReply]) -> dict[str, object]:
        right, large = sum(one.right for one in replies), sum(one.large_tokens for one in replies)
        tokens, joules = large + sum(one.small_tokens for one in replies), [one.joules for one in replies]
        known = [one for one in joules if one is not None]
        low, high = wilson(right, len(replies))
        return {
            "right": right,
            "low": rounded(low),
            "high": rounded(high),
            "large_share": rounded(large / max(tokens, 1)),
            "switches": rounded(fmean(one.switches for one in replies)),
            "seconds": rounded(fmean(one.seconds for one in replies)),
            "cpu_s": rounded(fmean(one.cpu_s for one in replies)),
            "joules": rounded_or_none(fmean(known) if len(known) == len(joules) else None),
        }


def ask_in_turns(
    model: Model, problems: Sequence[MathProblem], most_tokens: int, report: SwitchReport, progress: Progress
) -> None:
    """Add replies of all sides to ``report``, a problem at a time; ``model`` has a small one beside it."""
    engine, chat = model.engine, model.chat(max_tokens=most_tokens)
    assert isinstance(engine, SwitchedEngine)
    for number, problem in enumerate(problems, 1):
        found = {}
        for side, rule in SIDES.items():
            engine.forget()
            engine.decide_by(partial(EntropySwitching, rule))
            chat.reset()
            found[side] = _asked(model, engine, chat.reply(problem.text, final=True), problem)
        for side, reply in found.items():
            report.replies[side].append(reply)
        progress("problems", number, len(problems))


def _asked(model: Model, engine: SwitchedEngine, reply: Reply, problem: MathProblem) -> SwitchReply:
    began, cpu = time.perf_counter(), time.process_time()
    text = reply.read()
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    record, energy = engine.switched, None
    if reply.marks:
        energy = model.single.measures.energy(reply.marks, reply.stats)
    return SwitchReply(
        last_number(text) == problem.answer,
        record.of(record.small).tokens,
        record.of(record.large).tokens,
        record.switches,
        seconds,
        cpu_s,
        energy.joules if energy else None,
        energy.source if energy else "",
        bool(energy and energy.low is not None),
    )
