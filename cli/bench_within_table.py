"""The table of ``edgedec bench run --memory``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgedec.cli.bench_table import megabytes, new_table, number, quartiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from edgedec.bench.within import Within


def show_within(console: Console, rows: Sequence[Within]) -> None:
    """Print a line per side within a budget, and what each gave up."""
    console.print(
        "\nWithin budgets of memory. x full: decoding to the unconstrained side of the same drafts, median"
        " (quartiles) of neighbouring replies,\ntotal, and total with prompts; generation: all but weights"
        " and the loaded process",
        soft_wrap=True,
    )
    made = new_table(
        ("", "budget", "planned", "peak", "generation", "measured", "+ process", "tok/s", "x full", "total",
         "with prompts", "tokens/pass", "differ")
    )  # fmt: skip
    for row in rows:
        made.add_row(*(_cells(row) if row.choice else [row.side, *["-"] * 12]))
    console.print(made)
    for row in rows:
        for line in _lines(row):
            console.print(f"{row.side}: {line}", soft_wrap=True)


def _cells(row: Within) -> list[str]:
    differing = row.differing
    return [
        row.side,
        megabytes(row.budget) if row.budget is not None else "-",
        megabytes(row.planned),
        megabytes(row.peak),
        megabytes(row.generation),
        megabytes(row.measured),
        megabytes(row.generation + row.process),
        number(row.rate, 1),
        quartiles(row.ratio),
        number(row.ratio.total if row.ratio else None, 2),
        number(row.whole_ratio, 2),
        number(row.block_efficiency, 2),
        f"{differing.replies} of {differing.of}" if differing else "-",
    ]


def _lines(row: Within) -> list[str]:
    if row.choice is None:
        return [row.refused]
    lines = [f"gave up {', '.join(row.given_up)}"] if row.given_up else []
    counts = {
        "prompts too long for its context": row.unanswered,
        "prompts without the oldest turns": row.dropped,
        "replies that ended with the context": row.cut,
    }
    lines += [f"{count} {what}" for what, count in counts.items() if count]
    if row.over:
        lines.append(f"took {megabytes(row.peak - (row.budget or 0))} more than its budget")
    return lines
