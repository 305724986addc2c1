"""Speed within memory budgets: memory, concessions and speed of each side with a memory level."""

from __future__ import annotations

from typing import Any

from edgedec.bench.harness.journal import SideAnswer
from edgedec.bench.harness.memory_levels import FULL, generation
from edgedec.bench.harness.pairing import rounded_or_none
from edgedec.bench.harness.study import PLAIN, StudySide
from edgedec.bench.studies.drafts import Differing, DraftsReport, RateRatio
from edgedec.core.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """One drafter set within one budget. Sizes are bytes.

    - ``generation``: planned generation memory; see ``memory_levels``.
    - ``measured``: the peak without resident weights and the process as loaded.
    - ``drafts_end``: generation memory below which nothing drafts.
    - ``exact``: the KV cache has the type of plain decoding, so replies must be the same.
    - ``ratio``: decoding, to the unconstrained side with the same drafts.
    - ``whole_ratio``: the same for prompts and replies together, all tokens by all time.
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
    exact: bool = True
    dropped: int = 0
    cut: int = 0
    differing: Differing | None = None
    rate: float | None = None
    ratio: RateRatio | None = None
    whole_ratio: float | None = None
    block_efficiency: float | None = None

    @property
    def over(self) -> bool:
        return self.budget is not None and self.peak > self.budget

    @property
    def allowed(self) -> int:
        """Generation memory that the budget allows; a plan may use less."""
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
            "speed_with_prompts": rounded_or_none(self.whole_ratio),
            "block_efficiency": rounded_or_none(self.block_efficiency),
            "differing_replies": self.differing and self.differing.replies,
            "same_replies_expected": self.exact,
            "too_long": self.unanswered,
            "with_dropped_turns": self.dropped,
            "cut_replies": self.cut,
        }


def budget_rows(report: DraftsReport) -> list[BudgetRow]:
    """Return the sides of ``report`` with a memory level, in the order given."""
    return [_row(report, side) for side in report.with_level]


def plain_ratio(report: DraftsReport, draft: str) -> float | None:
    """Return the median rate of plain decoding, relative to the unconstrained side with these drafts."""
    ratio = report.score(PLAIN).ratio(report.full[draft])
    return ratio.pairs.median if ratio else None


def _row(report: DraftsReport, side: StudySide) -> BudgetRow:
    assert side.level is not None
    facts = report.opened[side.process.name]
    if "refused" in facts:
        return BudgetRow(side.name, side.mode, side.level.name, facts["refused"])
    answers = report.answers(side.name)
    plan, score = facts["memory"], report.score(side.name)
    parts, peak = plan["parts"], max(one.peak_rss_bytes for one in answers)
    resident, process = max(one.weights_rss_bytes for one in answers), parts["process"]
    base = report.full[side.mode]
    return BudgetRow(
        side.name,
        side.mode,
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
        whole_ratio=_whole_ratio(answers, report.answers(base)),
        block_efficiency=score.block_efficiency,
    )


def _whole_ratio(mine: list[SideAnswer], others: list[SideAnswer]) -> float | None:
    pairs = [pair for pair in zip(mine, others, strict=True) if not pair[0].refused and not pair[1].refused]
    rates = []
    for answers in zip(*pairs, strict=True):
        seconds = sum(one.prefill_s + one.decode_s for one in answers)
        rates.append(sum(len(one.tokens) for one in answers) / seconds if seconds else 0.0)
    return rates[0] / rates[1] if len(rates) == 2 and rates[1] else None
