"""``edgedec bench``: measurements. Each is a module of its own, imported when it is called."""

from __future__ import annotations

from importlib import import_module

import click

from edgedec.cli import options as opt

MEASUREMENTS = {
    "kernels": "What a pass over k tokens costs, and how much of the memory's bandwidth is used.",
    "run": "Decoding, prefill, load and memory, beside another runtime.",
    "memory": "Whether --memory is kept, by random sessions; memory beside other runtimes.",
    "chat": "A long chat within one budget: is memory flat?",
    "conversations": "Tokens per second of several conversations at once, and whether replies differ.",
    "faithful": "Agreement with the exact float32 model on real text.",
    "quality": "Right answers with a lossy choice, beside the exact one.",
    "needle": "Whether a fact is found in a text that the cache is too small for.",
}
"""Name to one-line help; each lives in ``edgedec.cli.bench_NAME``."""


class BenchGroup(click.Group):
    """Imports a measurement only when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(MEASUREMENTS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in MEASUREMENTS:
            return None
        found = import_module(f"edgedec.cli.bench_{cmd_name}").command
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(MEASUREMENTS.items()))


@click.group(
    "bench",
    cls=BenchGroup,
    invoke_without_command=True,
    short_help="Measure speed, memory and faithfulness.",
    epilog=opt.examples(
        "edgedec bench kernels -m qwen2.5-coder-1.5b",
        "edgedec bench run -m qwen2.5-coder-1.5b --peer llama.cpp --gguf qwen.gguf",
        "edgedec bench conversations --at-once 1 --at-once 4 --draft auto --draft off",
        "edgedec bench faithful -m smollm2-135m --gguf smollm2.gguf --text book.txt --text code.py",
    ),
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Measure speed, memory and faithfulness on this machine."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
