"""``edgedec bench switch``: right answers and cost of two models that take turns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.options import count_option, save_option
from edgedec.cli.opening import open_model, run_config
from edgedec.cli.rare import Command
from edgedec.control.switching import SwitchRule
from edgedec.core.errors import UsageError

if TYPE_CHECKING:
    from edgedec.bench.studies.switching import SideResult, SwitchProblem

MATH, CODE = "math", "code"
_AT = ((0.1, 0.2), (0.2, 0.4), (0.4, 0.8), (0.7, 1.4), (1.2, 2.4))


def _rules(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> list[SwitchRule]:
    found = [opt.read_thresholds(ctx, param, text) for text in texts] or list(_AT)
    return [SwitchRule(*pair) for pair in found if pair]


@click.command(
    "switch",
    cls=Command,
    short_help="Right answers and cost of two models that take turns.",
    epilog=opt.examples(
        "edgedec bench switch -m qwen2.5-coder-1.5b --switch smollm2-135m --task code --save code.jsonl",
        "edgedec bench switch -m qwen2.5-coder-1.5b --switch smollm2-135m --task math --input gsm8k.jsonl",
        "edgedec bench switch -m large --switch small --task code --at 0.4,0.8 --limit 5 --plot code.svg",
    ),
)
@opt.model_option
@click.option("--switch", required=True, metavar="SMALL", help="The small model, by name or path.")
@click.option(
    "--task", type=click.Choice([CODE, MATH]), default=CODE, show_default=True, metavar="NAME",
    help="code: 20 built-in problems, whose tests are run in a sandbox; math: --input in GSM8K's format.",
)  # fmt: skip
@click.option(
    "--input", "source", type=click.Path(path_type=Path), metavar="FILE", help="math: the questions."
)
@click.option(
    "--at", "rules", multiple=True, callback=_rules, metavar="LOW,HIGH",
    help="Thresholds in bits, as for --switch-at; may be given several times (default: five pairs).",
)  # fmt: skip
@count_option("--limit", "ask the first N problems.")
@count_option("--max-tokens", "longest reply, in tokens.", 256)
@opt.draft_option
@opt.threads_option
@opt.context_option
@opt.memory_option
@save_option
@opt.plot_option
@opt.json_option
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Ask problems of both models alone, of both in turn, and of random switching of the same share.

    Replies are greedy. Beside the share of right answers stands its 95 % interval; times are those of whole
    replies, the prompt included. With --save a study that was interrupted goes on where it was.
    """
    from edgedec.bench.plots.figure import check_plot
    from edgedec.bench.studies.switching import SwitchJournal, SwitchStudy
    from edgedec.switch.engine import SwitchedEngine

    if options["plot"]:
        check_plot(options["plot"])
    problems = _problems(options)[: options["limit"]]
    rules: list[SwitchRule] = options["rules"]
    model = open_model(ctx, options["model"], run_config({**options, "greedy": True}))
    engine = model.engine
    assert isinstance(engine, SwitchedEngine)
    names = ("model", "switch", "task", "max_tokens", "draft")
    conditions: dict[str, object] = {name: options[name] for name in names}
    study = SwitchStudy(
        model.chat(max_tokens=options["max_tokens"]),
        engine,
        problems,
        SwitchJournal(options["save"], conditions),
    )
    with inputs.steps() as progress:
        results = study.run(rules, lambda done, total: progress("replies", done, total))
    if options["plot"]:
        from edgedec.bench.plots.switching import draw_sides

        title = f"{model.name} with {engine.small.name}: {options['task']}, {len(problems)} problems"
        draw_sides(results, options["plot"], title=title)
    if options["as_json"]:
        screen.show_json({**conditions, "sides": [one.as_json() for one in results]})
    else:
        _show(results)


def _problems(options: dict[str, Any]) -> list[SwitchProblem]:
    from edgedec.bench.studies.switching import code_problems, math_problems

    if options["task"] == CODE:
        if options["source"]:
            raise UsageError("--input is for --task math", hint="leave it out")
        return code_problems()
    if options["source"] is None:
        raise UsageError("--task math needs questions", hint="--input gsm8k.jsonl")
    return math_problems(options["source"])


def _show(results: list[SideResult]) -> None:
    from edgedec.bench.studies.switching import LARGE

    large = next(one for one in results if one.side == LARGE)
    click.echo(
        "side                    right   95 % interval   large model   switches   s each   CPU, large = 1"
    )
    for one in results:
        low, high = one.interval
        cost = f"{one.cpu_s / large.cpu_s:.2f}" if large.cpu_s else "-"
        click.echo(
            f"{one.side:<20} {one.right:>3}/{one.asked:<4} {low:>7.0%} to {high:<4.0%} {one.share:>12.0%} "
            f"{one.switches:>10.1f} {one.seconds:>8.1f} {cost:>16}"
        )
