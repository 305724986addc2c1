"""``edgedec plan``: what fits into how much memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.command import new_command, option, taking
from edgedec.cli.opening import fetch_bundles, run_config
from edgedec.cli.plan_experts import as_json as experts_as_json
from edgedec.cli.plan_experts import budgets_of
from edgedec.cli.plan_experts import show as show_experts
from edgedec.cli.positional import model_first
from edgedec.cli.progress import notice
from edgedec.cli.services import services
from edgedec.core.cache_config import STOP, WHEN_FULL, WhenFull
from edgedec.sampling.named import SamplingParams
from edgedec.system.memory import COUNTED

if TYPE_CHECKING:
    from edgedec.assemble.budget import Budget
    from edgedec.loaded_model import LoadedModel

WHY = {
    "process": "Python, libraries and the model's tokenizer: measured just now by {counted}",
    "weights": "the model itself: every token needs all of it",
    "experts": "{held} of {all_experts} experts; a token reads about {missed:.0%} of its own from the disk",
    "kv_cache": "the conversation: keys and values of {context} tokens in {kv}",
    "state": "the conversation as recurrent layers keep it, however long it is",
    "snapshots": "earlier states or windows of it, for messages that are changed",
    "scratch": "room to compute in, up to {longest} tokens at a time",
    "rows": "the chances of every word, to draw from, for up to {rows} tokens",
    "hidden": "states that the model hands to its drafters",
    "attention": "a record of the tokens that matter, which stay in a full cache",
    "tables": "phrases that drafters remember, to guess what comes next",
    "small": "the smaller model that takes turns, with all that it needs",
    "slack": "reserve for what a session comes to need",
}
LOST = {
    "prompts": "speed of prompts: they are read in smaller parts",
    "tree": "speed: fewer tokens are guessed ahead at a time",
    "tables": "speed: drafters remember fewer phrases",
    "drafter": "speed: no second model or head guesses ahead",
    "drafts": "speed: nothing is guessed ahead, every token takes a pass",
    "cache": "precision: the cache is kept in int8, so replies may differ",
}
"""Losses of a session in words for people, by the first word of a milestone; "context" has its own."""
ANY = SamplingParams(temperature=1.0, top_k=0, top_p=0.9)
"""Values that take the most memory: tokens are drawn from whole rows of logits, cut by top-p."""


@new_command(
    "plan",
    "edgedec plan --memory 250MB",
    "edgedec plan qwen2.5-coder-1.5b --memory 1.3GB --context 4096",
    "edgedec plan qwen2.5-coder-1.5b --draft auto,smollm2-135m --sampled",
    "edgedec plan --memory 220MB --json | jq .planned_bytes",
)
@model_first
@option(
    "--sampled", is_flag=True, heading=opt.REPLY,
    help="Plan for replies that are drawn with any sampling values (default: as the model's preset draws).",
)  # fmt: skip
@option(
    "--batch", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
    heading=opt.COST, help="Plan for N conversations that share each pass, as `edgedec batch` has them.",
)  # fmt: skip
@option(
    "--when-full", type=click.Choice(WHEN_FULL), default=STOP, show_default=True, metavar="POLICY",
    heading=opt.COST, rare=True, help="Plan for this policy when the context is full; see chat.",
)  # fmt: skip
@opt.context_weight_option
@taking(size=opt.SizeOptions)
@opt.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    sampled: bool,
    batch: int,
    when_full: WhenFull,
    context_weight: float | None,
    size: opt.SizeOptions,
    as_json: bool,
) -> None:
    """Say what a run with these options takes, and what fits into --memory.

    The options are those of chat and generate that change memory. Without --memory nothing is given up. The
    model is loaded, and what the process holds then is measured; the rest is computed. Nothing is generated.

    For a model with experts a table has what several budgets are worth: experts in memory, expected reads
    from the disk, and the tokens per second that disk and memory allow, both measured just now.

    `edgedec bench report` draws the speed that every budget allows.
    """
    from edgedec.api import context_of
    from edgedec.assemble.budget import cache_for
    from edgedec.assemble.prepare import prepare
    from edgedec.session.model_stats import PlanStats

    config = replace(
        run_config(size, ANY if sampled else None),
        when_full=when_full,
        context_weight=context_weight,
        conversations=batch if batch > 1 else None,
    )
    heard: list[str] = []
    context = context_of(services(ctx).store(), heard.append)
    run = prepare(config, fetch_bundles(ctx, model, config), context, services(ctx).load)
    budget = run.plan()
    for line in heard:
        if not line.endswith(budget.plan.given_up):  # those are rows of the plan
            notice(line)
    device = run.target.backend.device_bytes(cache_for(run.target, budget.choice))
    worth = budgets_of(run.target, budget, services(ctx)) if _streams(run.target) else None
    if as_json:
        report = PlanStats.of(budget).as_json()
        report |= {"experts": experts_as_json(*worth)} if worth else {}
        report["counted_by"] = COUNTED
        stones = [{"bytes": nbytes, "below": line} for nbytes, line in budget.milestones()]
        if config.memory is None:
            del report["budget_bytes"]
        on_device = {"device": {"parts": device, "planned_bytes": sum(device.values())}} if device else {}
        screen.show_json({"model": run.target.name, **report, **on_device, "milestones": stones})
        return
    _show(run.target.name, budget, size.memory)
    if worth:
        show_experts(*worth)
    _show_device(device, size.device.memory)


def _streams(model: LoadedModel) -> bool:
    """Return whether experts of the model can be read from the disk."""
    return model.spec.experts is not None and model.manifest.kind == "edgedec" and model.bundle is not None


def _experts(budget: Budget) -> dict[str, float]:
    """Return the words about experts."""
    experts, held = budget.facts.target.spec.experts, budget.choice.experts
    return {"held": held, "all_experts": experts.total, "missed": 1.0 - experts.hits(held)} if experts else {}


def _show(name: str, budget: Budget, memory: int | None) -> None:
    plan, count = budget.plan, budget.facts.sequences
    context = f"{count} times {plan.choice.context}" if count > 1 else plan.choice.context
    words = {"context": context, "kv": plan.choice.kv, "longest": budget.longest_pass, **_experts(budget)}
    promised = f" of {in_mb(memory)}" if memory else ""
    why_of = WHY | {one.part: one.why for one in budget.facts.drafters}
    click.echo(f"{name}: {in_mb(plan.peak)}{promised}\n")
    for part, nbytes in plan.parts.items():
        why = why_of[part].format(**words, counted=COUNTED, rows=count * (1 + plan.choice.drafted))
        click.echo(_row(f"{part.replace('_', ' '):<10}{in_mb(nbytes):>11}  ", why))
    if plan.given_up:
        click.echo("\nGiven up to fit:")
        for line in plan.given_up:
            click.echo(_row("  ", line))
    if budget.facts.target.spec.experts and not budget.facts.target.experts:
        return  # with less memory, experts come from the disk before anything is given up
    click.echo("\nWith less than    this is given up, too:")
    for nbytes, text in _thresholds(budget):
        click.echo(_row(f"{in_mb(nbytes):>14}    ", text))


def _show_device(parts: dict[str, int], memory: int | None) -> None:
    if not parts:
        return
    promised = f" of {in_mb(memory)}" if memory else ""
    click.echo(f"\nOn the GPU: {in_mb(sum(parts.values()))}{promised}; above is room to go on without it\n")
    for part, nbytes in parts.items():
        click.echo(f"{part.replace('_', ' '):<10}{in_mb(nbytes):>11}")


def in_mb(count: int) -> str:
    """Return bytes in MB, also above 1 GB: steps between budgets are small.

    >>> in_mb(1_343_200_000)
    '1343.2 MB'
    """
    return f"{count / 1e6:.1f} MB"


def _thresholds(budget: Budget) -> Iterator[tuple[int, str]]:
    """Yield budgets from the largest down, each with what is lost below it; steps of one kind are one."""
    (nothing, _), *others = budget.milestones()
    shown = set()
    for nbytes, line in reversed(others):
        text = LOST.get(line.partition(":")[0], line)
        if text not in shown and nbytes <= budget.plan.budget:  # more is in "Given up to fit"
            shown.add(text)
            yield nbytes, text
    yield nothing, "all: the model does not fit"


def _row(head: str, text: str) -> str:
    """Return a row of a table; on a narrow terminal the text goes on below itself."""
    if not sys.stdout.isatty():
        return head + text
    columns, _ = screen.window(sys.stdout)
    return screen.hanging(head, text, max(columns, 2 * len(head)))
