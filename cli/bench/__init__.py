"""``edgedec bench``: one module for each study, imported when it is called."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

import click

from edgedec.cli import options as opt


@dataclass(frozen=True, slots=True)
class Study:
    """A subcommand: the module that has its ``command``, and one line of help."""

    module: str
    help: str


STUDIES = {
    "speed": Study("edgedec.cli.bench.speed", "Plain decoding, prefill, load and memory, beside peers."),
    "drafts": Study("edgedec.cli.bench.drafts", "Ways to draft, by kind of question and by memory."),
    "kernels": Study("edgedec.cli.bench.kernels", "Cost of a pass over k tokens."),
    "memory": Study("edgedec.cli.bench.memory", "Peaks of random sessions, a long chat and peers."),
    "accuracy": Study("edgedec.cli.bench.accuracy", "Agreement, right answers, facts found, repetition."),
    "batch": Study("edgedec.cli.bench.batch", "Tokens per second of conversations in a batch."),
}
"""Subcommands by name. A new study is a module and a line here."""


class StudyGroup(click.Group):
    """Imports a study when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(STUDIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in STUDIES:
            return None
        found = import_module(STUDIES[cmd_name].module).command
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, study.help) for name, study in STUDIES.items()])


@click.group(
    "bench",
    cls=StudyGroup,
    invoke_without_command=True,
    short_help="Measure speed, memory and accuracy.",
    epilog=opt.examples(
        "edgedec bench speed -m qwen2.5-coder-1.5b --peer llama.cpp --gguf qwen.gguf",
        "edgedec bench kernels -m qwen2.5-coder-1.5b",
        "edgedec bench batch --batch 1 --batch 4 --draft auto --draft off",
        "edgedec bench accuracy --gguf smollm2.gguf --input book.txt --input code.py",
    ),
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Measure speed, memory and accuracy on this machine."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
