"""``edgedec measure compare``: two reports side by side."""

from __future__ import annotations

from pathlib import Path

import click

from edgedec.cli import options as opt
from edgedec.cli import screen


@click.command(
    "compare",
    short_help="Two reports side by side, with ratios.",
    epilog=opt.examples(
        "edgedec measure compare laptop phone",
        "edgedec measure compare before after --out change",
        "edgedec measure compare before/report.json after/report.json --json | jq .figures",
    ),
)
@click.argument("first", type=click.Path(path_type=Path), metavar="A")
@click.argument("second", type=click.Path(path_type=Path), metavar="B")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FOLDER",
    help="Write report.html and report.md of the comparison into this folder.",
)  # fmt: skip
@opt.json_option
def command(first: Path, second: Path, out: Path | None, as_json: bool) -> None:
    """Put the report B beside the report A: of two machines, two versions, two models.

    A and B are folders that `edgedec measure` wrote, or report.json files. Prints what differs in conditions
    and machine, and every figure that both have, with the ratio of B by A. Ratios within 5 % of 1 have no
    verdict: two runs on one machine differ by as much.
    """
    from edgedec.bench.measure.compared import Comparison
    from edgedec.bench.measure.pages import markdown_of, write_pages
    from edgedec.bench.measure.report import Report

    found = Comparison(Report.read(first), Report.read(second))
    if out:
        write_pages(out, found.title, found.lines, found.parts())
    if as_json:
        screen.show_json(found.as_json())
    else:
        click.echo(markdown_of(found.title, found.lines, found.parts()), nl=False)
