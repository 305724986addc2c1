"""Compare memory and the time of a token along one long chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgedec.bench.harness.memory_levels import FULL
from edgedec.bench.harness.runtimes import OwnRun
from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.energy_tables import show_energies
from edgedec.cli.bench.tasks import CHAT_TOKENS
from edgedec.core.errors import EdgeDecError, MemoryBudgetError, UsageError
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bench.studies.long_chat import LongChatReport
    from edgedec.cli.bench.memory import MemoryOptions


def run(ctx: click.Context, options: MemoryOptions) -> None:
    from edgedec.bench.harness.questions import read_questions
    from edgedec.bench.harness.texts import PROMPTS
    from edgedec.bench.studies.long_chat import killed_chat, long_chat
    from edgedec.core.manifest import Manifest

    drafts = options.drafts or ("auto",)
    if len(options.levels) > 1 or len(drafts) > 1:
        raise UsageError("a chat has one budget and one way to draft", hint="give --memory and --draft once")
    models = inputs.find_draft_models(ctx, drafts)
    if len(models) > 1:
        raise UsageError("only one model can draft within --memory", hint="name one")
    questions = read_questions(options.file) if options.file else []
    texts = [text for one in questions for text in one.turns] or list(PROMPTS)
    bundle = inputs.find_bundle(ctx, options.model)
    side = OwnRun(
        options.chosen_threads, inputs.home(ctx), options.context, options.kv, drafts[0], models,
        level=options.levels[0] if options.levels else FULL, max_tokens=options.max_tokens or CHAT_TOKENS,
    ).side(bundle)  # fmt: skip
    with inputs.steps() as progress:
        report = long_chat(side, texts, options.turns, progress)
        if options.kill:
            report.killed = killed_chat(side, texts, report, options.seed, progress)
    name = Manifest.load(bundle).name
    budget = report.facts["memory"]["budget_bytes"] if options.levels else None
    if options.as_json:
        screen.show_json({"model": name, "budget_bytes": budget, **report.as_json()})
    else:
        _show(name, report, budget)
    if report.killed and report.killed.same < report.killed.compared:
        raise EdgeDecError("after the restart the chat continued with other replies")
    if budget and report.peak > budget:
        raise MemoryBudgetError(f"{size(report.peak - budget)} more than --memory {size(budget)} were taken")


def _show(name: str, report: LongChatReport, budget: int | None) -> None:
    plan, number, last = report.facts["memory"], report.settled_turn, len(report.turns)
    promised = f" of --memory {size(budget)}" if budget else ""
    click.echo(f"{name}: {last} turns, a context of {report.facts['capacity']} tokens")
    click.echo(f"peak {size(report.peak)}, planned {size(plan['planned_bytes'])}{promised}")
    for line in plan["given_up"]:
        click.echo(f"given up: {line}")
    click.echo(
        f"most resident up to turn {number}: {size(report.resident(number))}, up to turn {last}: "
        f"{size(report.resident(last))} ({report.growth / 1e3:+.1f} kB)"
    )
    click.echo(f"dropped turns: {report.dropped}; too long for the context: {report.refused}")
    if report.slowdown is None:
        click.echo("ms per token: no context is common to the first and the last quarter")
    else:
        click.echo(f"ms per token in the last quarter by the first, at equal context: {report.slowdown:.3f}")
        for band in report.bands():
            span = f"{band.low} to {band.high} tokens"
            click.echo(f"  {span:<22}{band.first_ms:8.2f} {band.last_ms:8.2f}   {band.ratio:.3f}")
    if killed := report.killed:
        click.echo(
            f"killed after turn {killed.turn} and restored: {killed.same} of the next {killed.compared} "
            "replies are the same"
        )
        for line in killed.notices:
            click.echo(f"  {line}")
    show_energies(report.energies)
