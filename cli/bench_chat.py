"""``edgedec bench chat``: a long chat within one budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli import bench_common as common
from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.core.errors import EdgeDecError, MemoryBudgetError, UsageError
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bench.long_chat import ChatReport
    from edgedec.bench.worker import Side
    from edgedec.memory import KvType


@click.command(
    "chat",
    short_help="A long chat within one budget: is memory flat?",
    epilog=opt.examples(
        "edgedec bench chat --turns 200 --memory 230MB --context 1024",
        "edgedec bench chat --turns 200 --memory 230MB --kill --plot chat.png",
        "edgedec bench chat -m qwen2.5-coder-1.5b --prompts spec_bench.jsonl --json | jq .growth_bytes",
    ),
)
@opt.model_option
@click.option(
    "--turns", type=click.IntRange(min=1), default=200, show_default=True, metavar="N",
    help="Turns of the user.",
)  # fmt: skip
@opt.memory_option
@opt.context_option
@opt.kv_option
@opt.threads_option
@opt.draft_option
@click.option(
    "--max-tokens", type=click.IntRange(min=2), default=48, show_default=True, metavar="N",
    help="Longest reply, in tokens.",
)  # fmt: skip
@click.option(
    "--prompts", type=click.Path(path_type=Path), metavar="FILE",
    help="What the user says, over and over: a prompt per line, or questions as for bench run.",
)  # fmt: skip
@click.option(
    "--kill", is_flag=True,
    help="Then have the chat again up to a random turn, save it, kill its process and go on in another.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, metavar="S", help="Of that random turn.")
@opt.plot_option
@opt.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    turns: int,
    memory: int | None,
    context: int | None,
    kv: KvType,
    threads: int | None,
    draft: str,
    max_tokens: int,
    prompts: Path | None,
    kill: bool,
    seed: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Have one chat of many turns in one process, which is watched: its memory after every turn, and the time
    of a token.

    When the context is full the oldest turns are dropped, as in any chat. Memory should be flat from turn 20
    on (of a shorter chat, from half of it): the most of the ten turns up to there is compared with the most
    of the last ten. A token should take as long in the last quarter as in the first with as much context (the
    same eighth of the longest). With --kill, the replies after the restart must be those of the chat that was
    not killed, or the exit status is 1. It is 10 if more than --memory was taken.
    """
    from edgedec.bench.long_chat import killed_chat, long_chat
    from edgedec.bench.long_chat_plot import draw_long_chat
    from edgedec.bench.plot import check_plot
    from edgedec.core.manifest import Manifest

    if plot:
        check_plot(plot)
    bundle = common.find_bundle(ctx, model)
    settings = (memory, context, kv, threads, draft, max_tokens)
    side, texts = _side(ctx, bundle, *settings), _texts(prompts)
    with common.steps() as progress:
        report = long_chat(side, texts, turns, progress=progress)
        if kill:
            report.killed = killed_chat(side, texts, report, seed, progress=progress)
    name = Manifest.load(bundle).name
    if plot:
        draw_long_chat(report, memory, plot, title=f"{name}, {turns} turns")
    if as_json:
        screen.show_json({"model": name, "budget_bytes": memory, **report.as_json()})
    else:
        _show(name, report, memory)
    if report.killed and report.killed.same < report.killed.compared:
        raise EdgeDecError("after the restart the chat went on with other replies")
    if memory and report.peak > memory:
        raise MemoryBudgetError(f"{size(report.peak - memory)} more than --memory {size(memory)} were taken")


def _side(
    ctx: click.Context, bundle: Path, memory: int | None, context: int | None, kv: KvType,
    threads: int | None, draft: str, max_tokens: int,
) -> Side:  # fmt: skip
    from edgedec.bench.levels import FULL, Level
    from edgedec.bench.sides import ours_chatting
    from edgedec.cli.seams import fetch_drafts, seams
    from edgedec.runtime.drafting import Drafting
    from edgedec.telemetry.machine import physical_cores

    drafting = Drafting(draft)
    if len(drafting.models) > 1:
        raise UsageError("only one model can draft within --memory", hint="name one")
    return ours_chatting(
        bundle,
        max_tokens=max_tokens,
        elastic=context is None,
        name="edgedec",
        level=Level("size", memory, size(memory)) if memory else FULL,
        draft=draft,
        drawing=0,
        threads=threads or physical_cores(),
        context=context,
        costs=seams(ctx).store().home / "costs",
        draft_models=fetch_drafts(ctx, drafting),
        kv=kv,
    )


def _texts(prompts: Path | None) -> list[str]:
    from edgedec.bench.questions import read_questions
    from edgedec.bench.texts import PROMPTS

    return (
        list(PROMPTS) if prompts is None else [text for one in read_questions(prompts) for text in one.turns]
    )


def _show(name: str, report: ChatReport, memory: int | None) -> None:
    plan, number, last = report.facts["memory"], report.settled_turn, len(report.turns)
    promised = f" of --memory {size(memory)}" if memory else ""
    click.echo(f"{name}: {len(report.turns)} turns, a context of {report.facts['capacity']} tokens")
    click.echo(f"peak {size(report.peak)}, planned {size(plan['planned_bytes'])}{promised}")
    for line in plan["given_up"]:
        click.echo(f"given up: {line}")
    kilobytes = f"{report.growth / 1e3:+.1f} kB"
    click.echo(
        f"most resident up to turn {number}: {size(report.resident(number))}, up to turn {last}: "
        f"{size(report.resident(last))} ({kilobytes})"
    )
    click.echo(f"dropped turns: {report.dropped}; too long for the context: {report.refused}")
    if report.slowdown is None:
        click.echo("ms per token: no context is common to the first and the last quarter")
    else:
        click.echo(f"ms per token in the last quarter by the first, at equal context: {report.slowdown:.3f}")
        for band in report.bands():
            span = f"{band.low} to {band.high} tokens"
            click.echo(f"  {span:<22}{band.first_ms:8.2f} {band.last_ms:8.2f}   {band.ratio:.3f}")
    if report.killed:
        killed = report.killed
        click.echo(
            f"killed after turn {killed.turn} and restored: {killed.same} of the next {killed.compared} "
            "replies are the same"
        )
        for line in killed.notices:
            click.echo(f"  {line}")
