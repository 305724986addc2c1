"""``edgedec bench memory``: is --memory kept, and what do others take?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from edgedec.bench.sides import PEERS
from edgedec.cli import bench_common as common
from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench_memory_peers import compare
from edgedec.cli.bench_options import Shared, levels_option, shared_options
from edgedec.core.errors import MemoryBudgetError, UsageError
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bench.levels import Level
    from edgedec.bench.memory_runs import MemoryReport


@click.command(
    "memory",
    short_help="Whether --memory is kept; memory beside other runtimes.",
    epilog=opt.examples(
        "edgedec bench memory --runs 200",
        "edgedec bench memory -m qwen2.5-coder-1.5b --draft auto --draft auto,smollm2-135m",
        "edgedec bench memory --runs 20 --json | jq .measured_over_planned",
        "edgedec bench memory -m model.gguf --peer llama.cpp,onnxruntime-genai --memory -65%",
    ),
)
@shared_options(PEERS)
@click.option(
    "--runs", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="Random runs."
)
@click.option(
    "--draft", "drafts", multiple=True, default=("auto", "lookup", "recycling", "off"), metavar="NAMES",
    help="Drafts to choose from; may be given several times (default: auto, lookup, recycling, off).",
)  # fmt: skip
@click.option(
    "--longest", type=click.IntRange(min=256), default=1024, show_default=True, metavar="N",
    help="Tokens of the longest context.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, metavar="S", help="Of the random sessions.")
@levels_option
@click.option(
    "--prompt-tokens", type=click.IntRange(min=1), default=512, show_default=True, metavar="N",
    help="With --peer: tokens of the prompt.",
)  # fmt: skip
@click.option(
    "--max-tokens", type=click.IntRange(min=2), default=64, show_default=True, metavar="N",
    help="With --peer: tokens decoded after it.",
)  # fmt: skip
@click.option(
    "--context", type=click.IntRange(min=2), metavar="N",
    help="With --peer: tokens of context to make room for (default: as many as are used).",
)  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context,
    /,
    runs: int,
    drafts: tuple[str, ...],
    longest: int,
    seed: int,
    levels: list[Level],
    prompt_tokens: int,
    max_tokens: int,
    context: int | None,
    **given: Any,
) -> None:
    """Run random sessions under random budgets, each in a process of its own, and compare peaks with plans.

    Budgets lie between a little less than the smallest that fits and a little more than any use. The kernel
    counts what each process had at most, and where control groups can be made (Linux, version 1 or 2: as
    root, or below what systemd hands to users) ends what goes over its budget; else a line says what is
    missing for that. Exits with status 10 if any did.

    With --peer: memory beside other runtimes instead. Each side in turn, alone, loads the same weights, reads
    the same prompt and continues it by as many tokens, in a context of the same size. "peak" is the most that
    was resident (VmHWM), pages of mapped files counted on every side alike; "mapped" and "private" are its
    two parts after the reply. "charged" is the most that Linux charged to a control group of that process
    alone: private memory and files of the model, also where they are read and not mapped, but no libraries.
    llama.cpp maps its file and keeps keys and values in fp16; "as mapped" does without the quicker copies of
    weights that it makes. --memory adds sides within budgets, as in bench run.
    """
    shared = Shared(**given)
    _check_options(ctx, shared)
    if shared.peers:
        compare(ctx, shared, levels, prompt_tokens=prompt_tokens, max_tokens=max_tokens, context=context)
        return
    _random(ctx, shared, drafts, runs, longest=longest, seed=seed)


_OF_SESSIONS = ("runs", "drafts", "longest", "seed")
_OF_PEERS = (
    "levels", "prompt_tokens", "max_tokens", "context", "threads", "isa", "kv", "gguf", "peer_pythons",
)  # fmt: skip


def _check_options(ctx: click.Context, shared: Shared) -> None:
    """Raises UsageError for an option of the other kind of run."""
    for param in ctx.command.params:
        stray = param.name in (_OF_SESSIONS if shared.peers else _OF_PEERS)
        if stray and ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE:
            where = "random sessions, which --peer replaces" if shared.peers else "a run with --peer"
            raise UsageError(f"{param.opts[0]} belongs to {where}")


def _random(
    ctx: click.Context, shared: Shared, drafts: tuple[str, ...], runs: int, *, longest: int, seed: int
) -> None:
    from edgedec.bench.memory_runs import random_runs

    bundle = str(common.find_bundle(ctx, shared.model))
    with common.steps() as progress:

        def done(count: int) -> None:
            progress("sessions", count, runs)

        found = random_runs(bundle, drafts, runs, seed, longest=longest, done=done)
    if shared.as_json:
        screen.show_json(found.as_json())
    else:
        _show(found)
    over = sum(run.over or run.killed for run in found.runs)
    if over:
        raise MemoryBudgetError(f"{over} of {runs} sessions took more than their budget")


def _show(report: MemoryReport) -> None:
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
    spare = [run.budget - run.peak for run in report.runs if run.peak]
    if spare:
        click.echo(f"nearest to its budget: {size(min(spare))} below it")
