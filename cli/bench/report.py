"""``edgedec bench report``: one report of a model on this machine, or two reports side by side."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.options import StudyOptions
from edgedec.cli.command import new_command
from edgedec.cli.progress import notice
from edgedec.cli.services import services
from edgedec.core.errors import EdgeDecError, UsageError

if TYPE_CHECKING:
    from edgedec.bench.report.contents import Report
    from edgedec.bench.report.folder import PartsFolder
    from edgedec.bench.report.subject import Subject
    from edgedec.core.cache_config import Device


@new_command(
    "report",
    "edgedec bench report",
    "edgedec bench report -m qwen2.5-coder-1.5b --out qwen-laptop",
    "edgedec bench report --quick --out today --json | jq .parts.passes",
    "edgedec bench report qwen-laptop qwen-phone",
)
@click.argument("reports", nargs=-1, type=click.Path(path_type=Path), metavar="[A B]")
@opt.model_option
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FOLDER",
    help="Folder of the report (default: report-MODEL here). The same command goes on in it.",
)  # fmt: skip
@click.option("--quick", is_flag=True, help="Shorter replies, two memory budgets, fewer questions.")
@opt.threads_option
@opt.device_option
@opt.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    reports: tuple[Path, ...],
    model: str,
    out: Path | None,
    quick: bool,
    threads: int | None,
    device: Device,
    as_json: bool,
) -> None:
    """Measure a model on this machine, in minutes, and write one report; or compare the reports A and B.

    The report has the machine, the costs of passes, the memory plan, drafters beside plain decoding with
    energy and the distance from the roofline, speed over memory, and easy questions. FOLDER gets report.html,
    which needs nothing else, report.md and report.json. Figures have 95 % intervals.

    Each part is kept when it is measured. After Ctrl-C the same command goes on with the part that was
    interrupted; measured parts stay as they are. A part that cannot be measured says why. The exit status is
    1 if replies with drafts differ from plain decoding.

    A and B are folders of reports or report.json files: of two machines, two versions, two models. Prints
    what differs in conditions and machine, and every figure that both have, with the ratio of B by A. It is
    better or worse where the intervals part; else no difference is seen. Other programs that took the cores
    count: a part could have been quicker without them. --out writes the comparison into a folder.
    """
    if reports:
        _compare(reports, out, as_json)
        return
    from edgedec.bench.report.folder import PartsFolder
    from edgedec.bench.report.pages import write_pages

    subject, where = _subject(ctx, model, out, quick, threads)
    subject = replace(subject, device=device)
    folder = PartsFolder(where, subject.conditions())
    report = _measured(subject, folder)
    report.write(where)
    write_pages(where, report.title, report.busy, report.views())
    if as_json:
        screen.show_json(report.as_json())
    else:
        _show(report, where)
    if absent := report.absent:
        notice(f"not measured: {', '.join(absent)}; the report says why, and the same command tries again")
    if count := report.differing_replies:
        raise EdgeDecError(f"{count} replies differ from plain decoding", hint="this is a bug of EdgeDec")


def _compare(reports: tuple[Path, ...], out: Path | None, as_json: bool) -> None:
    from edgedec.bench.report.compared import Comparison
    from edgedec.bench.report.contents import Report
    from edgedec.bench.report.pages import markdown_of, write_pages

    if len(reports) != 2:
        raise UsageError(f"two reports are compared, not {len(reports)}", hint="edgedec bench report A B")
    found = Comparison(*map(Report.read, reports))
    if out:
        write_pages(out, found.title, found.lines, found.parts())
    if as_json:
        screen.show_json(found.as_json())
    else:
        click.echo(markdown_of(found.title, found.lines, found.parts()), nl=False)


def _subject(
    ctx: click.Context, model: str, out: Path | None, quick: bool, threads: int | None
) -> tuple[Subject, Path]:
    """Return the subject, and the folder of its report."""
    from edgedec.bench.report.folder import JOURNALS
    from edgedec.bench.report.subject import FULL_EFFORT, QUICK_EFFORT, Subject

    chosen = StudyOptions(model=model, threads=threads, as_json=False).chosen_threads
    bundle, manifest = inputs.find_model(ctx, model)
    where = out or Path("report-" + re.sub(r"[^\w.-]+", "-", manifest.name))
    effort = QUICK_EFFORT if quick else FULL_EFFORT
    read = services(ctx).bandwidth
    home = Path(inputs.home(ctx))
    return Subject(bundle, manifest, home, chosen, effort, read, where / JOURNALS), where


def _measured(subject: Subject, folder: PartsFolder) -> Report:
    from edgedec.bench.report.contents import PARTS, measure

    try:
        with inputs.steps() as progress:
            return measure(subject, folder, progress)
    except KeyboardInterrupt:
        done = len(folder.kept())
        notice(f"{done} of {len(PARTS)} parts are kept in {folder.path}; the same command goes on")
        raise


def _show(report: Report, where: Path) -> None:
    from edgedec.bench.report.contents import SUMMARY

    click.echo("\n".join((report.title, *report.busy)))
    figures = report.figures()
    for title, view in report.views():
        click.echo(f"\n{title}")
        for line in view.lines:
            click.echo(f"  {line}")
        rows = view.tables[0].rows if title == SUMMARY else ()
        for name, value in (*rows, *((one.name, one.worded()) for one in figures.get(title, ()))):
            click.echo(f"  {name:<40}{value}")
    click.echo(f"\n{where / 'report.html'}")
