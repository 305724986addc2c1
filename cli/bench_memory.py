"""``edgedec bench memory``: is --memory kept?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgedec.cli import bench_common as common
from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.core.errors import MemoryBudgetError
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bench.memory_runs import MemoryReport


@click.command(
    "memory",
    short_help="Whether --memory is kept.",
    epilog=opt.examples(
        "edgedec bench memory --runs 200",
        "edgedec bench memory -m qwen2.5-coder-1.5b --draft auto --draft auto,smollm2-135m",
        "edgedec bench memory --runs 20 --json | jq .measured_over_planned",
    ),
)
@opt.model_option
@click.option("--runs", type=click.IntRange(min=1), default=50, show_default=True, metavar="N")
@click.option(
    "--draft", "drafts", multiple=True, default=("auto", "lookup", "recycling", "off"), metavar="NAMES",
    help="Drafts to choose from; may be given several times (default: auto, lookup, recycling, off).",
)  # fmt: skip
@click.option(
    "--longest", type=click.IntRange(min=256), default=1024, show_default=True, metavar="N",
    help="Tokens of the longest context.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, metavar="S", help="Of the random sessions.")
@opt.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    runs: int,
    drafts: tuple[str, ...],
    longest: int,
    seed: int,
    as_json: bool,
) -> None:
    """Run random sessions under random budgets, each in a process of its own, and compare peaks with plans.

    Budgets lie between a little less than the smallest that fits and a little more than any use. The kernel
    counts what each process had at most, and where control groups can be made (Linux, as root) ends what goes
    over its budget. Exits with status 10 if any did.
    """
    from edgedec.bench.memory_runs import random_runs

    bundle = str(common.find_bundle(ctx, model))
    with common.steps() as progress:

        def done(count: int) -> None:
            progress("sessions", count, runs)

        found = random_runs(bundle, drafts, runs, seed, longest=longest, done=done)
    if as_json:
        screen.show_json(found.as_json())
    else:
        _show(found)
    over = sum(run.over or run.killed for run in found.runs)
    if over:
        raise MemoryBudgetError(f"{over} of {runs} sessions took more than their budget")


def _show(report: MemoryReport) -> None:
    found = report.as_json()
    held = "held to its budget by the kernel" if report.enforced else "watched, not held, by the kernel"
    click.echo(f"{found['runs']} sessions, each {held}")
    click.echo(f"over budget {found['over']}, killed {found['killed']}, failed {found['failed']}")
    click.echo(f"refused: budget too small {found['refused']}, prompt too long {found['too_long']}")
    if report.ratios:
        low, median, high = found["measured_over_planned"]
        click.echo(
            f"peak over plan in the {found['filled']} that filled their context: "
            f"{median:.3f} (median), {low:.3f} to {high:.3f}"
        )
    spare = [run.budget - run.peak for run in report.runs if run.peak]
    if spare:
        click.echo(f"nearest to its budget: {size(min(spare))} below it")
