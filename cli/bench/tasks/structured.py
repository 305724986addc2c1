"""Count replies under JSON schemas: accepted, whole, valid, alike with drafts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.opening import open_model

if TYPE_CHECKING:
    from edgedec.bench.studies.structured import FormReport
    from edgedec.cli.bench.accuracy import AccuracyOptions

_SCHEMAS = 45


def run(ctx: click.Context, options: AccuracyOptions) -> None:
    """Reply with and without drafts, and show the figures. Exit status 1 if a reply differs."""
    from edgedec.assemble.config import RunConfig
    from edgedec.bench.studies.structured import ask_drafted, ask_plain, form_cases

    cases, tokens, threads = (
        form_cases(options.limit or _SCHEMAS),
        options.text_tokens,
        options.chosen_threads,
    )
    with inputs.steps() as progress:
        with open_model(ctx, options.model, RunConfig(threads=threads, kv=options.kv, draft="off")) as plain:
            rows = ask_plain(plain, cases, tokens, progress)
        with open_model(ctx, options.model, RunConfig(threads=threads, kv=options.kv)) as drafting:
            report = ask_drafted(drafting, cases, rows, tokens, progress)
    if options.as_json:
        facts = {"model": drafting.name, "kv": options.kv, "threads": threads, "tokens": tokens}
        screen.show_json({**facts, **report.as_json()})
    else:
        _show(report, f"{drafting.name}: replies under JSON schemas, greedy, at most {tokens} tokens")
    if report.count("alike", False):
        ctx.exit(1)


def _show(report: FormReport, title: str) -> None:
    from edgedec.bench.harness.pairing import spread
    from edgedec.cli.bench.tables import new_table, quartiles, wide_console

    facts, ratios = report.as_json(), report.ratios
    median, most = report.compile_ms
    valid = facts["valid"]
    drafts = (f"{name} {one.drafted}, {one.accepted}" for name, one in report.drafts.items())
    table = new_table(("", ""))
    table.show_header = False
    table.add_row("schemas accepted", _share(report.accepted, len(report.rows)))
    table.add_row("time to compile one", f"{median:.2f} ms (median), {most:.2f} ms (95 % within)")
    table.add_row("replies whole, cut", f"{facts['whole']}, {facts['cut']}")
    unchecked = "not checked: jsonschema is not installed"
    table.add_row("whole replies valid", unchecked if valid is None else _share(valid, facts["whole"]))
    table.add_row("tokens drafted, taken", "; ".join(drafts) or "0, 0")
    table.add_row("replies that differ with drafts", str(facts["differing"]))
    ratio = quartiles(spread(ratios) if ratios else None)
    table.add_row("processor time of a token", f"{ratio} of free text's; {len(ratios)} pairs of replies")
    console = wide_console()
    console.print(title)
    console.print(table)


def _share(count: int, whole: int) -> str:
    return f"{count} of {whole} ({count / whole:.1%})" if whole else "0 of 0"
