"""``edgedec bench serving``: servers under the load of several clients."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.options import count_option, input_option
from edgedec.core.errors import UsageError

if TYPE_CHECKING:
    from edgedec.bench.studies.serving import ServingRow

_FAILED = 1


@click.command(
    "serving",
    short_help="Servers under the load of several clients.",
    epilog=opt.examples(
        "edgedec bench serving http://127.0.0.1:8080/v1",
        "edgedec bench serving http://127.0.0.1:8080/v1 http://127.0.0.1:8081/v1 --clients 1 --clients 4",
        "edgedec bench serving http://127.0.0.1:8080/v1 --input conversations.jsonl --json",
    ),
)
@click.argument("servers", nargs=-1, required=True, metavar="URL...")
@click.option(
    "--clients", multiple=True, type=click.IntRange(1, 64), metavar="N", default=(1, 2, 4, 8),
    help="Clients at once; may be given several times (default: 1, 2, 4 and 8).",
)  # fmt: skip
@input_option("A conversation per line; .jsonl: a string, or an object with prompt, question or turns.")
@count_option("--max-tokens", "Longest reply, in tokens.", 64)
@opt.json_option
@click.pass_context
def command(
    ctx: click.Context,
    servers: Sequence[str],
    clients: Sequence[int],
    file: Path | None,
    max_tokens: int,
    as_json: bool,
) -> None:
    """Put the load of several clients on running servers that speak OpenAI's interface, and compare.

    Each URL ends where /chat/completions begins. The servers take turns. Seconds to the first token and
    tokens per second are given as reached by 50 and 95 % of the replies. Where a conversation has several
    turns, later ones have a column of their own: they show how much of a prompt a server keeps.

    Replies are greedy. Some replies of each load are asked for again, alone; where one differs, or a server
    refuses, the exit status is 1.
    """
    import asyncio

    from edgedec.bench.harness.texts import QUESTIONS, read_conversations
    from edgedec.bench.studies.serving import ServingStudy, measure_serving

    conversations = read_conversations(file) if file else [[one] for one in QUESTIONS]
    if len(conversations) < max(clients):
        raise UsageError(
            f"{len(conversations)} conversations are not enough for {max(clients)} clients",
            hint="give more with --input, or fewer --clients",
        )
    study = ServingStudy([one.rstrip("/") for one in servers], conversations, clients, max_tokens)
    with inputs.steps() as progress:
        found = asyncio.run(measure_serving(study, progress))
    if as_json:
        screen.show_json({"max_tokens": max_tokens, "results": [one.as_json() for one in found]})
    else:
        _show(found)
    if any(one.differ or one.failed for one in found):
        ctx.exit(_FAILED)


def _show(found: Sequence[ServingRow]) -> None:
    heads = ("clients", "tokens/s", "first token s", "later turns s", "each tokens/s", "differ", "failed")
    click.echo("".join(f"{head:>16}" for head in heads) + "  server")
    for one in found:
        cells = (
            one.clients,
            f"{one.tokens_per_s:.1f}",
            _pair(one.first_s, 2),
            _pair(one.later_s, 2),
            _pair(one.each_tokens_per_s, 1),
            f"{one.differ} of {one.checked}",
            len(one.failed),
        )
        click.echo("".join(f"{cell:>16}" for cell in cells) + f"  {one.server}")
    for one in found:
        for line in dict.fromkeys(one.failed):
            click.echo(f"{one.server}, {one.clients} clients: {line}")


def _pair(values: Sequence[float], digits: int) -> str:
    return " ".join(f"{value:.{digits}f}" for value in values) or "-"
