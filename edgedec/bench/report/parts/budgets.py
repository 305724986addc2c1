"""Speed over memory, measured: replies within memory budgets, each in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

from edgedec.bench.report.replies import answers, drafting_side, plain_side, study_of
from edgedec.bench.report.subject import Subject
from edgedec.bench.report.views import Chart, Figure, TableView, View, number
from edgedec.core.progress import Progress
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bench.studies.drafts import DraftsReport

_DRAFTERS = "auto"
_PROMPTS = 6


def measure(subject: Subject, progress: Progress) -> dict[str, Any]:
    """Answer prompts within each memory level, as ``edgedec.bench.studies.speed_within_budgets`` does."""
    from edgedec.bench.harness.pairing import by_field
    from edgedec.bench.harness.questions import plain_questions
    from edgedec.bench.harness.texts import QUESTIONS
    from edgedec.bench.studies.drafts import DraftsReport
    from edgedec.bench.studies.speed_within_budgets import budget_rows, plain_ratio

    questions = plain_questions(QUESTIONS[:_PROMPTS])
    study, run = study_of(subject, questions, subject.effort.tokens)
    sides = [plain_side(subject, run)]
    for level in subject.effort.levels:
        sides.append(
            drafting_side(subject, replace(run, context=None, draft=_DRAFTERS, level=level), _DRAFTERS, level)
        )
    report = DraftsReport(questions, sides, answers(subject, "budgets", sides, study, progress))
    found = budget_rows(report)
    rows = [{**by_field(row), "speeds": _speeds(report, side)} for side, row in found.items()]
    return {"rows": rows, "plain": plain_ratio(report, _DRAFTERS), "tokens_each": subject.effort.tokens}


def _speeds(report: DraftsReport, side: str) -> list[float]:
    """Return the rate of each reply by that of the side without a budget."""
    pairs = zip(report.answers(side), report.answers(report.full[_DRAFTERS]), strict=True)
    return [round(one.rate / base.rate, 4) for one, base in pairs if one.rate and base.rate]


def figures(result: Mapping[str, Any]) -> list[Figure]:
    found = []
    for row in _answered(result):
        found.append(Figure.resident(f"{row['level']}, peak", row["peak_rss_bytes"]))
        if row["speeds"]:
            name = f"{row['level']}, relative speed"
            found.append(Figure.median(name, row["speeds"], "", "more", timed=True))
    return found


def view(result: Mapping[str, Any]) -> View:
    rows = tuple(
        (
            row["level"],
            size(row["budget_bytes"]) if row["budget_bytes"] else "none",
            size(row["peak_rss_bytes"]) + (" OVER" if row["over_budget"] else ""),
            size(row["generation_bytes"]),
            number(median(row["speeds"])) if row["speeds"] else "-",
            number(row["block_efficiency"]),
            "; ".join(row["given_up"]) or "nothing",
        )
        for row in _answered(result)
    )
    refused = [(row["level"], row["refused"]) for row in result["rows"] if "refused" in row]
    points = [
        (row["generation_allowed_bytes"] / 1e6, median(row["speeds"]))
        for row in _answered(result)
        if row["speeds"]
    ]
    lines = {"with drafts": sorted(points)}
    if result["plain"] is not None and points:
        ends = (min(points)[0], max(points)[0])
        lines["plain decoding"] = [(end, result["plain"]) for end in ends]
    chart = Chart(
        "Speed over memory, measured", "generation memory, MB", "speed, relative to no budget", lines,
        points=("with drafts",),
    )  # fmt: skip
    head = ("level", "budget", "peak", "generation", "speed", "block efficiency", "given up")
    return View(
        lines=tuple(f"{level}: refused, {reason}." for level, reason in refused),
        tables=(TableView(head, rows),),
        charts=(chart,) if len(points) > 1 else (),
        notes=(
            f"{_PROMPTS} prompts, at most {result['tokens_each']} tokens each. A level of -50% takes away "
            "half of the generation memory: all but the weights and the loaded process. Speed: that of "
            "a reply by the same one without a budget, median.",
        ),
    )


def _answered(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [row for row in result["rows"] if "refused" not in row]
