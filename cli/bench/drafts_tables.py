"""Tables of ``edgedec bench drafts``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgedec.bench.harness.pairing import spread
from edgedec.bench.harness.study import PLAIN
from edgedec.bench.studies.drafts import BASES, PARTS
from edgedec.bench.studies.speed_within_budgets import BudgetRow, RefusedRow
from edgedec.cli.bench.tables import megabytes, new_table, number, percent, quartiles, wide_console
from edgedec.core.units import size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console
    from rich.table import Table

    from edgedec.bench.studies.drafts import DraftsReport


_ABOUT_SIDES = """
Decoding; median (quartiles) over replies, total: all tokens by all time; CPU: total by processor time, which
other load hardly changes; predicted: the total speed-up by costs; MBSU: by bytes that are read, and with each
drafter's embedding counted; ms per pass: drafting, the model's pass, all but the model's pass"""
_ABOUT_CATEGORIES = f"""
Speed-up over plain {PLAIN}: median of neighbouring replies (total), by processor time, predicted; and tokens
per pass"""
_ABOUT_DRAFTERS = """
Drafters; gained: right tokens; share: of the time of decoding; step: a pass of the drafter's model with its
part of all drafting, and that as a share of a plain pass"""


_ABOUT_DEPTHS = """
Accepted by depth: of the rounds with a token drafted there below right ones; how many"""
_DEEPEST_SHOWN = 8
_ABOUT_JUDGED = """
Right, of the tokens to which a drafter gave this probability, after right ones; how many, in thousands"""


def show(report: DraftsReport, rows: Mapping[str, BudgetRow | RefusedRow], title: str) -> None:
    """Print all tables on standard output."""
    console = wide_console()
    turns = sum(len(one.turns) for one in report.questions)
    console.print(f"{title}, {len(report.questions)} questions, {turns} turns", soft_wrap=True)
    console.print(_ABOUT_SIDES, soft_wrap=True)
    console.print(_sides(report))
    console.print(_ABOUT_CATEGORIES, soft_wrap=True)
    console.print(_categories(report))
    if any(report.score(side).by_depth for side in report.without_budget):
        console.print(_ABOUT_DEPTHS, soft_wrap=True)
        console.print(_depths(report))
    if any(report.score(side).drafters for side in report.without_budget):
        console.print(_ABOUT_DRAFTERS, soft_wrap=True)
        console.print(_drafters(report))
        console.print(_ABOUT_JUDGED, soft_wrap=True)
        console.print(_judged(report))
    if rows:
        _show_budgets(console, report, rows)
    _show_facts(console, report)


def _sides(report: DraftsReport) -> Table:
    bases = [base for base in BASES if base in report.sides]
    headings = ["", "tok/s", "total"]
    for base in bases:
        headings += [f"x {base}", "total", "CPU"]
    headings += ["predicted", "tokens/pass", "accepted", "MBSU", "embedding counted"]
    table = new_table([*headings, "ms drafting", "model", "all else"])
    for side in report.without_budget:
        score = report.score(side)
        rates = spread(score.rates) if score.rates else None
        cells = [quartiles(rates, 1), number(score.total_rate, 1)]
        for base in bases:
            ratio = score.ratio(base)
            totals = (ratio.total, ratio.by_processor_time) if ratio else (None, None)
            cells += [quartiles(ratio), *(number(part, 2) for part in totals)]
        cells += [number(value, 2) for value in (score.predicted_speed_up, score.block_efficiency)]
        cells.append(percent(score.acceptance_rate))
        found = score.mbsu
        cells += [number(part, 2) for part in ((found.streamed, found.parameters) if found else (None, None))]
        table.add_row(side, *cells, *(number(score.per_round_ms(part), 3) for part in PARTS))
    return table


def _depths(report: DraftsReport) -> Table:
    """Make a line per drafter set: acceptance at each depth, given that all above it was right."""
    deepest = max(len(report.score(side).by_depth) for side in report.without_budget)
    shown = min(deepest, _DEEPEST_SHOWN)
    table = new_table(("", *(str(depth + 1) for depth in range(shown))))
    for side in report.without_budget:
        if found := report.score(side).by_depth:
            cells = [f"{right / seen:.2f} ({seen})" if seen else "-" for seen, right in found[:shown]]
            table.add_row(side, *cells, *["-"] * (shown - len(cells)))
    return table


def _drafters(report: DraftsReport) -> Table:
    """Make a line per drafter set and drafter: tokens, time and bytes."""
    table = new_table(
        ("", "drafter", "queries", "proposed", "fed", "gained", "gained/pass", "ms/query", "ms/pass", "share",
         "MB/pass", "steps", "ms/step", "of a pass")
    )  # fmt: skip
    for side in report.without_budget:
        for name, one in report.score(side).drafters.items():
            counts = (one.queries, one.proposed_tokens, one.drafted_tokens, one.accepted_tokens)
            read = (one.bytes_per_round or 0.0) / 1e6
            means = (one.gained_per_round, one.ms_per_query, one.ms_per_round)
            cells = [*(f"{count:.0f}" for count in counts), *(number(mean, 3) for mean in means)]
            cells += [f"{one.share_of_time or 0.0:.1%}", f"{read:.1f}" if read else "-", f"{one.steps:.0f}"]
            table.add_row(side, name, *cells, number(one.ms_per_step, 3), percent(one.step_of_a_pass))
    return table


def _judged(report: DraftsReport) -> Table:
    """Make a line per drafter set and drafter: how often its tokens were right, by their probability."""
    steps = [f"{step / 10:.1f}" for step in range(10)]
    table = new_table(("", "drafter", *steps, "1"))
    for side in report.without_budget:
        for name, counts in report.score(side).judged.items():
            cells = (f"{right / seen:.2f} ({seen / 1000:.1f})" if seen else "-" for seen, right in counts)
            table.add_row(side, name, *cells)
    return table


def _categories(report: DraftsReport) -> Table:
    """Make a line per category: tokens/s of plain decoding; speed-ups and tokens per pass of the others."""
    others = [side for side in report.without_budget if side != PLAIN]
    headings = [heading for side in others for heading in (side, "CPU", "predicted", "tokens/pass")]
    table = new_table(["", "replies", f"{PLAIN} tok/s", *headings])
    for name, questions in [*report.categories().items(), ("all", list(report.questions))]:
        plain = report.score(PLAIN, questions)
        cells = [str(len(plain.answers)), number(plain.total_rate, 1)]
        for side in others:
            score = report.score(side, questions)
            ratio = score.ratio(PLAIN)
            cells.append(f"{ratio.median:.2f} ({ratio.total:.2f})" if ratio else "-")
            cells.append(number(ratio.by_processor_time if ratio else None, 2))
            cells += [number(value, 2) for value in (score.predicted_speed_up, score.block_efficiency)]
        table.add_row(name if name in report.groups or name == "all" else f"  {name}", *cells)
    return table


def _show_facts(console: Console, report: DraftsReport) -> None:
    console.print()
    for side, found in report.differing().items():
        if side in report.without_budget:
            count = found.replies or "none"
            console.print(f"{side}: {count} of {found.of} replies differ from plain decoding")
    for name, peak in report.peaks().items():
        sides = [side for side in report.without_budget if report.processes[side] == name]
        facts = report.opened.get(name, {})
        shared = f", shared by {', '.join(sides)}" if len(sides) > 1 else ""
        version = f"{name}: {facts.get('version', '')}, {facts.get('isa', '')}"
        if sides:
            console.print(f"{version}; peak {size(peak)}{shared}", soft_wrap=True)
    for side in report.without_budget:
        if held := report.drafter_bytes(side):
            parts = ", ".join(f"{name} {size(count)}" for name, count in held.items())
            console.print(f"{side}: memory of drafters: {parts}", soft_wrap=True)
    if report.runs > 1:
        console.print(f"measured in {report.runs} runs; drafters began each without what they had learned")
    ratios = [ratio for side in report.sides if (ratio := report.score(side).ratio(PLAIN))]
    if apart := sum(ratio.pairs_of_different_runs for ratio in ratios):
        console.print(f"{apart} ratios are of replies that were measured in different runs")
    for line in report.notices():
        console.print(line, soft_wrap=True)


def _show_budgets(console: Console, report: DraftsReport, rows: Mapping[str, BudgetRow | RefusedRow]) -> None:
    console.print(
        "\nWithin memory budgets. x full: decoding to the unconstrained side with the same drafts, median"
        " (quartiles) of neighbouring replies,\ntotal, and total with prompts; generation: all but weights"
        " and the loaded process",
        soft_wrap=True,
    )
    table = new_table(
        ("", "budget", "planned", "peak", "generation", "measured", "+ process", "tok/s", "x full", "total",
         "with prompts", "tokens/pass", "differ")
    )  # fmt: skip
    for side, row in rows.items():
        table.add_row(side, *(["-"] * 12 if isinstance(row, RefusedRow) else _cells(report, side, row)))
    console.print(table)
    for side, row in rows.items():
        for line in [row.refused] if isinstance(row, RefusedRow) else _notes(row):
            console.print(f"{side}: {line}", soft_wrap=True)


def _cells(report: DraftsReport, side: str, row: BudgetRow) -> list[str]:
    sizes = (row.planned_bytes, row.peak_rss_bytes, row.generation_bytes, row.generation_measured_bytes)
    return [
        "-" if row.budget_bytes is None else megabytes(row.budget_bytes),
        *map(megabytes, (*sizes, row.generation_and_process_bytes)),
        number(report.score(side).total_rate, 1),
        quartiles(row.speed),
        number(row.speed.total if row.speed else None, 2),
        number(row.speed_with_prompts, 2),
        number(row.block_efficiency, 2),
        f"{row.differing_replies} of {report.differing()[side].of}",
    ]


def _notes(row: BudgetRow) -> list[str]:
    lines = [f"gave up {', '.join(row.given_up)}"] if row.given_up else []
    counts = {
        "prompts too long for its context": row.too_long,
        "prompts without the oldest turns": row.with_dropped_turns,
        "replies that ended with the context": row.cut_replies,
    }
    lines += [f"{count} {meaning}" for meaning, count in counts.items() if count]
    if row.over_budget:
        lines.append(f"took {megabytes(row.peak_rss_bytes - (row.budget_bytes or 0))} more than its budget")
    return lines
