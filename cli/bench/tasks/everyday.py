"""Count the replies to everyday prompts that end by themselves, and the right ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.opening import open_model

if TYPE_CHECKING:
    from edgedec.bench.studies.everyday import EverydayReport
    from edgedec.cli.bench.accuracy import AccuracyOptions


def run(ctx: click.Context, options: AccuracyOptions) -> None:
    """Reply with the model's preset, and show the counts."""
    from edgedec.assemble.config import RunConfig
    from edgedec.bench.studies.everyday import ask_everyday

    config, tokens = RunConfig(threads=options.chosen_threads, kv=options.kv), options.text_tokens
    with inputs.steps() as progress, open_model(ctx, options.model, config) as model:
        report = ask_everyday(model, tokens, options.limit, progress)
    if options.as_json:
        screen.show_json({"model": model.name, "kv": options.kv, "tokens": tokens, **report.as_json()})
    else:
        _show(report, f"{model.name}: everyday prompts, with its preset, at most {tokens} tokens")


def _show(report: EverydayReport, title: str) -> None:
    from edgedec.cli.bench.tables import new_table, wide_console

    table = new_table(("prompts", "", "end by themselves", "right"))
    kinds = dict.fromkeys(row.kind for row in report.rows)
    for kind in kinds:
        rows = [row for row in report.rows if row.kind == kind]
        judged = [row.right for row in rows if row.right is not None]
        table.add_row(
            kind, str(len(rows)), str(sum(row.ended for row in rows)), f"{sum(judged)} of {len(judged)}"
        )
    right, judged_all = report.right
    table.add_row("all", str(len(report.rows)), str(report.ended), f"{right} of {judged_all}")
    console = wide_console()
    console.print(title)
    console.print(table)
    for row in report.rows:
        if not row.ended or row.right is False:
            console.print(f"{'wrong' if row.ended else 'runs on'}: {row.prompt}")
