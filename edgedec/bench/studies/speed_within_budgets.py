"""Speed within memory budgets: memory, concessions and speed of each side with a memory level."""

from __future__ import annotations

from typing import Any

from edgedec.bench.harness.journal import SideAnswer
from edgedec.bench.harness.memory_levels import FULL, generation
from edgedec.bench.harness.study import PLAIN, StudySide
from edgedec.bench.studies.drafts import DraftsReport, RateRatio
from edgedec.core.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """One drafter set whose budget is too small, and why."""

    draft: str
    level: str
    refused: str


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """One drafter set within one budget. Sizes are bytes.

    - ``generation_allowed_bytes``: generation memory that the budget allows; a plan may use less.
    - ``generation_bytes``: planned generation memory; see ``memory_levels``.
    - ``generation_measured_bytes``: the peak without resident weights and the process as loaded.
    - ``drafts_end_bytes``: generation memory below which nothing drafts.
    - ``speed``: decoding, to the unconstrained side with the same drafts.
    - ``speed_with_prompts``: the same for prompts and replies together, all tokens by all time.
    - ``same_replies_expected``: the KV cache has the type of plain decoding.
    """

    draft: str
    level: str
    budget_bytes: int | None
    planned_bytes: int
    peak_rss_bytes: int
    over_budget: bool
    generation_allowed_bytes: int
    generation_bytes: int
    generation_measured_bytes: int
    generation_and_process_bytes: int
    drafts_end_bytes: int | None
    choice: dict[str, Any]
    given_up: tuple[str, ...]
    speed: RateRatio | None
    speed_with_prompts: float | None
    block_efficiency: float | None
    differing_replies: int
    same_replies_expected: bool
    too_long: int
    with_dropped_turns: int
    cut_replies: int


def budget_rows(report: DraftsReport) -> dict[str, BudgetRow | RefusedRow]:
    """Return the sides of ``report`` with a memory level by name, in the order given."""
    return {side.name: _row(report, side) for side in report.with_level}


def plain_ratio(report: DraftsReport, draft: str) -> float | None:
    """Return the median rate of plain decoding, relative to the unconstrained side with these drafts."""
    ratio = report.score(PLAIN).ratio(report.full[draft])
    return ratio.median if ratio else None


def _row(report: DraftsReport, side: StudySide) -> BudgetRow | RefusedRow:
    assert side.level is not None
    facts = report.opened[side.process.name]
    if "refused" in facts:
        return RefusedRow(side.mode, side.level.name, facts["refused"])
    answers = report.answers(side.name)
    plan, score = facts["memory"], report.score(side.name)
    parts, peak = plan["parts"], max(one.peak_rss_bytes for one in answers)
    resident, process = max(one.weights_rss_bytes for one in answers), parts["process"]
    base, planned = report.full[side.mode], generation(parts)
    budget = None if side.level == FULL else plan["budget_bytes"]
    return BudgetRow(
        draft=side.mode,
        level=side.level.name,
        budget_bytes=budget,
        planned_bytes=plan["planned_bytes"],
        peak_rss_bytes=peak,
        over_budget=budget is not None and peak > budget,
        generation_allowed_bytes=planned + (0 if budget is None else budget - plan["planned_bytes"]),
        generation_bytes=planned,
        generation_measured_bytes=max(peak - resident - process, 0),
        generation_and_process_bytes=planned + process,
        drafts_end_bytes=facts["drafts_end"],
        choice=plan["choice"],
        given_up=tuple(plan["given_up"]),
        speed=score.ratio(base),
        speed_with_prompts=_whole_ratio(answers, report.answers(base)),
        block_efficiency=score.block_efficiency,
        differing_replies=report.differing()[side.name].replies,
        same_replies_expected=plan["choice"]["kv"] == plan["wanted"]["kv"],
        too_long=sum(bool(one.refused) for one in answers),
        with_dropped_turns=sum(bool(one.dropped) for one in answers if not one.refused),
        cut_replies=sum(one.cut for one in answers),
    )


def _whole_ratio(mine: list[SideAnswer], others: list[SideAnswer]) -> float | None:
    pairs = [pair for pair in zip(mine, others, strict=True) if not pair[0].refused and not pair[1].refused]
    rates = []
    for answers in zip(*pairs, strict=True):
        seconds = sum(one.prefill_s + one.decode_s for one in answers)
        rates.append(sum(len(one.tokens) for one in answers) / seconds if seconds else 0.0)
    return rates[0] / rates[1] if len(rates) == 2 and rates[1] else None
