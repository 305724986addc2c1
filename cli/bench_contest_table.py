"""The tables of ``edgedec bench run`` with drafts or categories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgedec.bench.contest import PLAIN
from edgedec.bench.contest_report import LLAMA
from edgedec.bench.within import within
from edgedec.cli.bench_table import new_table, number, quartiles, wide_console
from edgedec.cli.bench_within_table import show_within
from edgedec.core.units import size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from edgedec.bench.contest_report import ContestReport, Score

_DEPTHS = 8


def show(report: ContestReport, title: str, max_tokens: int) -> None:
    """Print what there is to know, on standard output."""
    console = wide_console()
    turns = sum(len(one.turns) for one in report.questions)
    console.print(
        f"{title}: {len(report.questions)} questions, {turns} turns, at most {max_tokens} tokens each",
        soft_wrap=True,
    )
    console.print("\nDecoding by side; median (quartiles) over replies, total: all tokens by all time")
    console.print(_sides(report))
    console.print(f"\nSpeed-up over plain {PLAIN}: median of neighbouring replies, total in parentheses")
    console.print(_speed(report))
    drafting = [side for side in report.apart if report.score(side).drafted]
    efficient = [side for side in report.apart if _drafts(report.score(side))]
    if efficient:
        console.print("\nTokens per pass (block efficiency, mean accepted length)")
        console.print(_efficiency(report, efficient))
    if drafting:
        console.print("\nDrafts found right, by depth; per drafter right of fed; memory of drafters")
        console.print(_acceptance(report, drafting))
        console.print("\nms per pass: drafting, the model's pass, and all that is not the model's pass")
        console.print(_times(report))
    if report.within:
        show_within(console, within(report))
    _facts(console, report)


def _drafts(score: Score) -> bool:
    return (score.block_efficiency or 1.0) > 1.0 or score.drafted > 0


def _sides(report: ContestReport) -> Table:
    bases = [base for base in (PLAIN, LLAMA) if base in report.sides]
    headings = ["", "tok/s", "total"]
    for base in bases:
        headings += [f"x {base}", "total"]
    table = new_table([*headings, "tokens/pass", "right"])
    for side in report.apart:
        score = report.score(side)
        values = score.as_json()["tokens_per_s"]
        cells = [f"{values['median']:.1f} ({values['low']:.1f}-{values['high']:.1f})" if values else "-"]
        cells.append(number(score.total_rate, 1))
        for base in bases:
            ratio = score.ratio(base)
            cells += [quartiles(ratio), number(ratio.total if ratio else None, 2)]
        cells += [number(score.block_efficiency, 2), _percent(score.acceptance_rate)]
        table.add_row(side, *cells)
    return table


def _speed(report: ContestReport) -> Table:
    """A line per category: tokens/s of plain decoding, and how many times as fast the others are."""
    others = [side for side in report.apart if side != PLAIN]
    table = new_table(["", "replies", f"{PLAIN} tok/s", *others])
    for name, questions in [*report.categories().items(), ("all", list(report.questions))]:
        plain = report.score(PLAIN, questions)
        cells = [str(len(plain.answers)), number(plain.total_rate, 1)]
        for side in others:
            ratio = report.score(side, questions).ratio(PLAIN)
            cells.append(f"{ratio.pairs.median:.2f} ({ratio.total:.2f})" if ratio else "-")
        table.add_row(_label(report, name), *cells)
    return table


def _efficiency(report: ContestReport, sides: Sequence[str]) -> Table:
    table = new_table(["", *sides])
    for name, questions in [*report.categories().items(), ("all", list(report.questions))]:
        scores = [report.score(side, questions) for side in sides]
        table.add_row(_label(report, name), *(number(score.block_efficiency, 2) for score in scores))
    return table


def _acceptance(report: ContestReport, sides: Sequence[str]) -> Table:
    table = new_table(["", *(str(depth) for depth in range(1, _DEPTHS + 1)), "right of fed", "memory"])
    for side in sides:
        score = report.score(side)
        rates = [_percent(found.right / found.drafted) for found in score.depths()[:_DEPTHS]]
        sources = [f"{name} {right}/{fed}" for name, (fed, right) in sorted(score.sources().items())]
        held = [f"{name} {size(count)}" for name, count in report.drafter_bytes(side).items()]
        padding = ["-"] * (_DEPTHS - len(rates))
        table.add_row(side, *rates, *padding, ", ".join(sources) or "-", ", ".join(held) or "-")
    return table


def _times(report: ContestReport) -> Table:
    table = new_table(["", "drafting", "model", "all else"])
    for side in report.apart:
        score = report.score(side)
        cells = [number(score.per_round_ms(part), 3) for part in ("draft", "verify", "own")]
        table.add_row(side, *cells)
    return table


def _facts(console: Console, report: ContestReport) -> None:
    console.print()
    for side, found in report.differing().items():
        if side not in report.apart:
            continue
        word = "none" if not found.replies else f"{found.replies}"
        console.print(f"{side}: {word} of {found.of} replies differ from plain decoding")
    for name, peak in report.peaks().items():
        sides = [side for side in report.apart if report.processes[side] == name]
        if not sides:
            continue
        facts = report.versions[name]
        shared = f", shared by {', '.join(sides)}" if len(sides) > 1 else ""
        console.print(
            f"{name}: {facts.get('version', '')}, {facts.get('isa', '')}; peak {size(peak)}{shared}",
            soft_wrap=True,
        )
    if report.runs > 1:
        console.print(f"measured in {report.runs} runs; drafters began each without what they had learned")
    apart = sum(ratio.apart for side in report.apart if (ratio := report.score(side).ratio(PLAIN)))
    if apart:
        console.print(f"{apart} ratios are of replies that were measured in different runs")
    for line in report.notices():
        console.print(line, soft_wrap=True)


def _label(report: ContestReport, name: str) -> str:
    return name if name in report.groups or name == "all" else f"  {name}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
