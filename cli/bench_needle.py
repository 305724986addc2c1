"""``edgedec bench needle``: is a fact still found in a text that the cache is too small for?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli import bench_common as common
from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.seams import open_model
from edgedec.core.when_full import LOSSY

if TYPE_CHECKING:
    from edgedec.bench.needle import Found, Trial
    from edgedec.core.manifest import Manifest
    from edgedec.memory import KvType


@click.command(
    "needle",
    short_help="Whether a fact is found in a text that the cache is too small for.",
    epilog=opt.examples(
        "edgedec bench needle -m qwen2.5-coder-1.5b --text book.txt --context 512",
        "edgedec bench needle --text a.txt --text b.txt --tokens 900 --context 256 --when-full speckv --json",
    ),
)
@opt.model_option
@click.option(
    "--text", "texts", type=click.Path(path_type=Path), multiple=True, required=True, metavar="FILE",
    help="UTF-8 text, or .jsonl prompts, that the facts are put into.",
)  # fmt: skip
@click.option(
    "--tokens", type=click.IntRange(min=16), default=1500, show_default=True, metavar="N",
    help="Tokens of the text around a fact.",
)  # fmt: skip
@click.option(
    "--context", type=click.IntRange(min=16), default=512, show_default=True, metavar="N",
    help="Tokens of the cache that is too small.",
)  # fmt: skip
@click.option(
    "--when-full", "policies", type=click.Choice(LOSSY), multiple=True, default=LOSSY, metavar="WHAT",
    help="What is done in it, as with generate: slide or speckv (default: each).",
)  # fmt: skip
@click.option(
    "--depths", type=click.IntRange(min=1), default=5, show_default=True, metavar="N",
    help="Even depths, from the text's beginning to its end, that facts are put at.",
)  # fmt: skip
@click.option(
    "--repeat", type=click.IntRange(min=1), default=4, show_default=True, metavar="N",
    help="Facts at each depth, each in another piece of the texts.",
)  # fmt: skip
@opt.threads_option
@opt.kv_option
@opt.json_option
@click.pass_context
def command(
    ctx: click.Context, /, model: str, texts: Sequence[Path], tokens: int, context: int,
    policies: Sequence[str], depths: int, repeat: int, threads: int | None, kv: KvType, as_json: bool,
) -> None:  # fmt: skip
    """Put a fact into a long text ("The secret number of Oslo is 47121."), ask for it at the end, and count.

    Every side reads the same texts and is asked the same, greedily: one whose cache has room for all, and one
    for each policy with a cache of --context tokens. What the first does not find, the others need not.
    """
    from edgedec.bench.needle import FULL, REPLY, measure, prompt_of, trials_of
    from edgedec.bench.texts import read_text

    first = open_model(ctx, model, threads=threads, context=context, kv=kv)
    trials = trials_of([read_text(path) for path in texts], first.tokenizer, tokens, depths, repeat)
    longest = max(len(prompt_of(trial, first)[0]) for trial in trials) + REPLY
    common.check_context(first.manifest, longest)
    sides: dict[str, Found] = {}
    with common.steps() as progress:
        for way in (FULL, *dict.fromkeys(policies)):
            slots = longest if way == FULL else context
            loaded = open_model(ctx, model, threads=threads, context=slots, kv=kv)
            sides[way] = measure(loaded, way, trials, progress)
    if as_json:
        facts = {"model": first.manifest.name, "kv": kv, "tokens": tokens, "longest": longest}
        shown = {way: found.as_json(trials) for way, found in sides.items()}
        screen.show_json({**facts, "context": context, "sides": shown})
    else:
        _print(sides, trials, first.manifest, context)


def _print(sides: Mapping[str, Found], trials: Sequence[Trial], manifest: Manifest, context: int) -> None:
    from edgedec.cli.bench_table import new_table, wide_console

    depths = sorted({trial.depth for trial in trials})
    table = new_table(("", "found", *(f"at {depth:.0%}" for depth in depths), "left the cache", "time"))
    for way, found in sides.items():
        counts = [str(found.at(depth, trials)) for depth in depths]
        evicted = f"{found.evicted} tokens" if found.evicted else "-"
        table.add_row(way, f"{sum(found.right)} of {len(trials)}", *counts, evicted, f"{found.seconds:.1f} s")
    console = wide_console()
    console.print(
        f"{manifest.name}: facts found by their depth in the text; a cache of {context} tokens, or full"
    )
    console.print(table)
