"""``edgedec bench switch``: right answers and cost of two models that take turns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.options import input_option, last_options
from edgedec.cli.command import new_command
from edgedec.cli.opening import open_model

if TYPE_CHECKING:
    from edgedec.bench.studies.quality import MathProblem
    from edgedec.bench.studies.switching import SwitchReport

_REPLY_TOKENS = 256


@new_command(
    "switch",
    "edgedec bench switch -m qwen2.5-coder-1.5b --switch qwen2.5-coder-0.5b",
    "edgedec bench switch -m qwen2.5-coder-1.5b --switch qwen2.5-coder-0.5b --input gsm8k.jsonl",
)
@opt.model_option
@click.option("--switch", required=True, metavar="SMALL", help="The small model, by name or path.")
@input_option("Questions in the format of GSM8K (default: 40 easy questions with one right number).")
@last_options
@click.pass_context
def command(
    ctx: click.Context, /, model: str, switch: str, file: Path | None, threads: int | None, as_json: bool
) -> None:
    """Ask questions of both models alone, and of both in turn by the entropy of each token.

    Replies are greedy. Times, processor times and joules are those of whole replies, the prompt included;
    joules are measured where the machine has a meter, and else an estimate. Ctrl-C ends it with the questions
    that all sides answered.
    """
    from edgedec.assemble.config import RunConfig
    from edgedec.bench.studies.switching import SwitchReport, ask_in_turns
    from edgedec.sampling.named import SamplingParams

    problems, report, stopped = _problems(file), SwitchReport(), False
    config = RunConfig(threads=threads, switch=switch, sampling=SamplingParams.greedy())
    opened = open_model(ctx, model, config)
    try:
        with inputs.steps() as progress:
            ask_in_turns(opened, problems, _REPLY_TOKENS, report, progress)
    except KeyboardInterrupt:
        stopped = True
    if as_json:
        facts = {"model": opened.name, "small": switch, "questions": len(problems), "answered": report.asked}
        screen.show_json({**facts, "sides": report.as_json(), "joules": report.source})
    else:
        _show(report, f"{opened.name} with {switch}: {report.asked} of {len(problems)} questions; per reply")
    if stopped:
        raise KeyboardInterrupt


def _problems(file: Path | None) -> list[MathProblem]:
    from edgedec.bench.studies.number_questions import easy_problems
    from edgedec.bench.studies.quality import read_problems

    return read_problems(file) if file else easy_problems()


def _show(report: SwitchReport, title: str) -> None:
    from edgedec.cli.bench.tables import new_table, wide_console

    names = ("right", "low", "high", "large_share", "switches", "seconds", "cpu_s", "joules")
    table = new_table(("", "right", "95 % from", "to", "of large", "switches", "s", "CPU s", "J"))
    for side, one in report.as_json().items():
        table.add_row(side, *("-" if one[name] is None else f"{one[name]:.4g}" for name in names))
    console = wide_console()
    console.print(title)
    console.print(table)
    if report.source:
        console.print(f"J: {report.source}", soft_wrap=True)
