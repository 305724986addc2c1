"""``edgedec plan``: what fits into how much memory."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.opening import fetch_bundles, run_config
from edgedec.cli.progress import notice
from edgedec.cli.rare import Command
from edgedec.cli.seams import seams
from edgedec.core.units import size
from edgedec.core.when_full import STOP, WHEN_FULL, WhenFull

if TYPE_CHECKING:
    from edgedec.control import CostCurve
    from edgedec.runtime.budget import Budget
    from edgedec.runtime.config import RunConfig
    from edgedec.runtime.loaded_model import LoadedModel

WHY = {
    "process": "Python, libraries, tokenizer and graph: measured just now",
    "weights": "every pass reads all of them",
    "kv_cache": "keys and values of {context} tokens in {kv}",
    "scratch": "passes over up to {longest} tokens",
    "rows": "whole rows of logits, for sampling, of up to {rows} tokens",
    "attention": "what attention falls on, and what of it stays in a full cache",
    "tables": "what drafters learn",
    "drafter": "weights, cache and scratch of the model that drafts",
    "slack": "what a session comes to need besides",
}


@click.command(
    "plan",
    cls=Command,
    short_help="Say what fits into how much memory.",
    epilog=opt.examples(
        "edgedec plan --memory 250MB",
        "edgedec plan -m qwen2.5-coder-1.5b --memory 1.3GB --context 4096",
        "edgedec plan -m qwen2.5-coder-1.5b --draft auto,smollm2-135m --temperature 0.8",
        "edgedec plan --memory 220MB --json | jq .planned_bytes",
        "edgedec plan -m qwen2.5-coder-1.5b --context 4096 --plot plan.png",
    ),
)
@opt.model_option
@opt.plan_options
@click.option(
    "--batch", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
    help="Plan for N conversations that share each pass, as generate --input has them.",
)  # fmt: skip
@click.option(
    "--when-full", type=click.Choice(WHEN_FULL), default=STOP, show_default=True, metavar="POLICY",
    help="Plan for this way to go on when the context is full; see chat.",
)  # fmt: skip
@opt.json_option
@opt.plot_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    batch: int,
    when_full: WhenFull,
    as_json: bool,
    plot: Path | None,
    **options: Any,
) -> None:
    """Say what a run with these options takes, and what fits into --memory.

    The options are those of chat and generate that change memory. Without --memory nothing is given up. The
    model is loaded, and what the process holds then is measured; the rest is computed. Nothing is generated.

    --plot draws what every budget gets: tokens per second, context, and what is given up. Speeds are
    predicted from pass costs on this machine, which the first reply with drafts measures and keeps. With
    drafts they lie between one token a pass and all drafts right.
    """
    from edgedec.bench.plots.figure import check_plot
    from edgedec.runtime.batch import check_batch
    from edgedec.runtime.budget import plan_memory

    if plot:
        check_plot(plot)
    config = run_config(options, when_full=when_full, conversations=batch if batch > 1 else None)
    bundles = fetch_bundles(ctx, model, config)
    models = seams(ctx).load(bundles.target, bundles.drafts, config.threads)
    if batch > 1:
        check_batch(models.target, batch, config.drafting)
    budget = plan_memory(models, config)
    if plot:
        _draw(ctx, model, models.target, budget, config, plot)
    if as_json:
        report = budget.as_json()
        if config.memory is None:
            del report["budget_bytes"]
        screen.show_json({"model": models.target.name, **report, "milestones": _milestones(budget)})
        return
    _show(models.target.name, budget, options["memory"])


def _milestones(budget: Budget) -> list[dict[str, object]]:
    from edgedec.memory.plan import least, milestones

    facts, wanted = budget.facts, budget.wanted
    return [
        {"bytes": least(facts, wanted), "below": "nothing fits"},
        *({"bytes": nbytes, "below": what} for nbytes, what in milestones(facts, wanted)),
    ]


def _draw(
    ctx: click.Context, given: str, model: LoadedModel, budget: Budget, config: RunConfig, path: Path
) -> None:
    """Draw plans; ``given`` is the model as the user names it."""
    from edgedec.bench.plots.memory_plan import draw_plans, plans
    from edgedec.runtime.pass_costs import CostFile

    found = plans(budget.facts, budget.wanted, elastic=config.context is None)
    costs: dict[str, CostCurve] = {}
    for kv in dict.fromkeys(plan.choice.kv for plan in found):
        curve = CostFile.of(model, kv, seams(ctx).store().home / "costs").read()
        if curve is not None:
            costs[kv] = curve
        else:
            how = f"edgedec generate -m {shlex.quote(given)} --kv {kv} -p Hi"
            notice(f"no speed with a cache in {kv}: its passes were never measured; `{how}` does it")
    title = f"{model.name}, {model.isa}, {model.threads} threads"
    memory = config.memory_bytes
    draw_plans(found, costs, memory if isinstance(memory, int) else None, path, title=title)


def _show(name: str, budget: Budget, memory: int | None) -> None:
    from edgedec.memory.footprint import longest_pass

    plan, count = budget.plan, budget.facts.sequences
    longest = longest_pass(plan.choice, count)
    context = f"{count} times {plan.choice.context}" if count > 1 else plan.choice.context
    words = {"context": context, "kv": plan.choice.kv, "longest": longest}
    promised = f" of {size(memory)}" if memory else ""
    click.echo(f"{name}: {size(plan.peak)}{promised}\n")
    for part, nbytes in plan.parts.items():
        why = WHY[part].format(**words, rows=count * (1 + plan.choice.drafted))
        click.echo(f"{part.replace('_', ' '):<10}{size(nbytes):>10}  {why}")
    if plan.given_up:
        click.echo("\nGiven up to fit:")
        for line in plan.given_up:
            click.echo(f"  {line}")
    click.echo("\nWith less than    a session has to give up")
    for stone in _milestones(budget):
        click.echo(f"{size(float(str(stone['bytes']))):>14}    {stone['below']}")
