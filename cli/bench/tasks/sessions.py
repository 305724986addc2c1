"""Compare peaks of random sessions with their budgets and plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.energy_tables import show_energies
from edgedec.cli.bench.tasks import DRAFTS
from edgedec.core.errors import MemoryBudgetError
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bench.studies.random_sessions import SessionsReport
    from edgedec.cli.bench.memory import MemoryOptions


def run(ctx: click.Context, options: MemoryOptions) -> None:
    from edgedec.bench.harness.saved_lines import SavedLines
    from edgedec.bench.studies.random_sessions import SessionsStudy, random_sessions
    from edgedec.core.manifest import Manifest

    bundle = inputs.find_bundle(ctx, options.model)
    drafts = options.drafts or DRAFTS
    study = SessionsStudy(str(bundle), drafts, options.repeat, options.seed, options.longest)
    saved = None
    if options.save:
        conditions = inputs.conditions(options, Manifest.load(bundle), None)
        conditions |= {"drafts": list(drafts), "seed": options.seed, "longest": options.longest}
        saved = SavedLines(conditions, options.save)
    with inputs.steps() as progress:
        found = random_sessions(study, progress, saved)
    if options.as_json:
        screen.show_json(found.as_json())
    else:
        _show(found)
    if over := sum(one.over or one.killed for one in found.sessions):
        raise MemoryBudgetError(f"{over} of {options.repeat} sessions took more than their budget")


def _show(report: SessionsReport) -> None:
    found = report.as_json()
    held = "watched, not held, by the kernel" if report.watched else "held to its budget by the kernel"
    click.echo(f"{found['runs']} sessions, each {held}{report.watched and ': ' + report.watched}")
    click.echo(f"over budget {found['over']}, killed {found['killed']}, failed {found['failed']}")
    click.echo(f"refused: budget too small {found['refused']}, prompt too long {found['too_long']}")
    if report.ratios:
        low, median, high = found["measured_over_planned"]
        click.echo(
            f"peak over plan in the {found['filled']} that filled their context: "
            f"{median:.3f} (median), {low:.3f} to {high:.3f}"
        )
    spare = [one.budget - one.peak for one in report.sessions if one.peak]
    if spare:
        click.echo(f"nearest to its budget: {size(min(spare))} below it")
    show_energies(report.energies)
