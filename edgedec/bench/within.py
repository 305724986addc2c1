"""What budgets of memory come to: for each side within one what it took, what it gave up, and its speed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edgedec.bench.contest import PLAIN, Contestant
from edgedec.bench.contest_report import ContestReport, Differing, Ratio
from edgedec.bench.journal import Answer
from edgedec.bench.levels import FULL, generation
from edgedec.bench.summary import rounded


@dataclass(frozen=True, slots=True)
class Within:
    """One way to draft within one budget, on the questions of a report. Bytes.

    ``generation`` is what was planned beside the weights and the loaded process (see ``levels``),
    ``measured`` the peak without the weights that are resident and the process as it was when loaded.
    ``ratio`` is of decoding, ``whole_ratio`` of prompts and replies together (all tokens by all time), to the
    unconstrained side of the same drafts. ``exact``: whether the cache is kept as plain decoding keeps it, so
    that its replies must be the same.
    """

    side: str
    draft: str
    level: str
    refused: str
    unanswered: int = 0
    budget: int | None = None
    planned: int = 0
    process: int = 0
    generation: int = 0
    measured: int = 0
    peak: int = 0
    choice: dict[str, Any] | None = None
    given_up: tuple[str, ...] = ()
    drafts_end: int | None = None
    """Generation memory below which nothing drafts."""
    exact: bool = True
    dropped: int = 0
    cut: int = 0
    differing: Differing | None = None
    rate: float | None = None
    ratio: Ratio | None = None
    whole_ratio: float | None = None
    block_efficiency: float | None = None

    @property
    def over(self) -> bool:
        return self.budget is not None and self.peak > self.budget

    @property
    def allowed(self) -> int:
        """Generation memory that the budget allows; a plan may make use of less."""
        return self.generation + (self.budget - self.planned if self.budget is not None else 0)

    @property
    def drafts(self) -> bool:
        return bool(self.choice and self.choice["drafted"])

    def as_json(self) -> dict[str, Any]:
        if self.choice is None:
            return {"draft": self.draft, "level": self.level, "refused": self.refused}
        return {
            "draft": self.draft,
            "level": self.level,
            "budget_bytes": self.budget,
            "planned_bytes": self.planned,
            "peak_rss_bytes": self.peak,
            "over_budget": self.over,
            "generation_allowed_bytes": self.allowed,
            "generation_bytes": self.generation,
            "generation_measured_bytes": self.measured,
            "generation_and_process_bytes": self.generation + self.process,
            "drafts_end_bytes": self.drafts_end,
            "choice": self.choice,
            "given_up": list(self.given_up),
            "speed": self.ratio.as_json() if self.ratio else None,
            "speed_with_prompts": self.whole_ratio and rounded(self.whole_ratio),
            "block_efficiency": self.block_efficiency and rounded(self.block_efficiency),
            "differing_replies": self.differing and self.differing.replies,
            "same_replies_expected": self.exact,
            "too_long": self.unanswered,
            "with_dropped_turns": self.dropped,
            "cut_replies": self.cut,
        }


def within(report: ContestReport) -> list[Within]:
    """All sides of ``report`` that have a budget, the unconstrained one first, in the order given."""
    return [_within(report, side) for side in report.within]


def _within(report: ContestReport, side: Contestant) -> Within:
    assert side.level is not None
    facts = report.opened[side.process.name]
    if "refused" in facts:
        return Within(side.name, side.draft, side.level.name, facts["refused"])
    answers = report.answers(side.name, report.questions)
    plan, score = facts["memory"], report.score(side.name)
    parts, peak = plan["parts"], max(one.peak_rss_bytes for one in answers)
    resident, process = max(one.weights_rss_bytes for one in answers), parts["process"]
    base = report.full[side.draft]
    return Within(
        side.name,
        side.draft,
        side.level.name,
        "",
        unanswered=sum(bool(one.refused) for one in answers),
        budget=None if side.level == FULL else plan["budget_bytes"],
        planned=plan["planned_bytes"],
        process=process,
        generation=generation(parts),
        measured=max(peak - resident - process, 0),
        peak=peak,
        choice=plan["choice"],
        given_up=tuple(plan["given_up"]),
        drafts_end=facts["drafts_end"],
        exact=plan["choice"]["kv"] == plan["wanted"]["kv"],
        dropped=sum(bool(one.dropped) for one in answers if not one.refused),
        cut=sum(one.cut for one in answers),
        differing=report.differing()[side.name],
        rate=score.total_rate,
        ratio=score.ratio(base),
        whole_ratio=_whole_ratio(answers, report.answers(base, report.questions)),
        block_efficiency=score.block_efficiency,
    )


def plain_ratio(report: ContestReport, draft: str) -> float | None:
    """Decoding without drafts, to the unconstrained side of these drafts: median of neighbouring replies."""
    ratio = report.score(PLAIN).ratio(report.full[draft])
    return ratio.pairs.median if ratio else None


def _whole_ratio(mine: list[Answer], others: list[Answer]) -> float | None:
    pairs = [pair for pair in zip(mine, others, strict=True) if not pair[0].refused and not pair[1].refused]
    rates = []
    for answers in zip(*pairs, strict=True):
        seconds = sum(one.prefill_s + one.decode_s for one in answers)
        rates.append(sum(len(one.tokens) for one in answers) / seconds if seconds else 0.0)
    return rates[0] / rates[1] if len(rates) == 2 and rates[1] else None
