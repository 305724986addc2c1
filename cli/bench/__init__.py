"""``edgedec bench``: one module for each study, imported when it is called."""

from __future__ import annotations

import click

from edgedec.cli import options as opt
from edgedec.cli.subcommands import Subcommand, SubcommandGroup

STUDIES = {
    "speed": Subcommand("edgedec.cli.bench.speed", "Plain decoding, prefill, load and memory, beside peers."),
    "drafts": Subcommand("edgedec.cli.bench.drafts", "Ways to draft, by kind of question and by memory."),
    "kernels": Subcommand("edgedec.cli.bench.kernels", "Cost of a pass over k tokens."),
    "experts": Subcommand("edgedec.cli.bench.experts", "Hits of experts in memory, by policy."),
    "memory": Subcommand("edgedec.cli.bench.memory", "Peak memory, within budgets and beside peers."),
    "accuracy": Subcommand("edgedec.cli.bench.accuracy", "Agreement, right answers, structured output."),
    "switch": Subcommand("edgedec.cli.bench.switch", "Two models that take turns: answers and cost."),
    "batch": Subcommand("edgedec.cli.bench.batch", "Tokens per second of conversations in a batch."),
    "report": Subcommand("edgedec.cli.bench.report", "One report of a model, or two side by side."),
}
"""Subcommands by name. A new study is a module and a line here."""


@click.group(
    "bench",
    cls=SubcommandGroup,
    subcommands=STUDIES,
    invoke_without_command=True,
    short_help="Measure speed, memory and accuracy.",
    epilog=opt.examples(
        "edgedec bench speed -m qwen2.5-coder-1.5b --peer llama.cpp",
        "edgedec bench kernels -m qwen2.5-coder-1.5b",
        "edgedec bench batch --batch 1 --batch 4 --draft auto --draft off",
        "edgedec bench report --quick",
        "edgedec bench accuracy -m smollm2.gguf --input book.txt --input code.py",
    ),
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Measure speed, memory and accuracy on this machine."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
