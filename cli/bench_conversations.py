"""``edgedec bench conversations``: several at once over one model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from edgedec.cli import bench_common as common
from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.seams import seams
from edgedec.core.errors import MemoryBudgetError, UsageError
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bench.conversations import Measured
    from edgedec.memory import KvType


@click.command(
    "conversations",
    short_help="Tokens per second of several conversations at once, and whether replies differ.",
    epilog=opt.examples(
        "edgedec bench conversations -m qwen2.5-coder-1.5b --at-once 1 --at-once 2 --at-once 4 --at-once 8",
        "edgedec bench conversations --at-once 4 --draft auto --draft off --max-tokens 200 --json",
        "edgedec bench conversations --at-once 4 --at-once 8 --memory 400MB",
    ),
)
@opt.model_option
@click.option(
    "--at-once", "counts", multiple=True, type=click.IntRange(1, 16), metavar="N", default=(1, 2, 4, 8),
    help="So many conversations at once; may be given several times (default: 1, 2, 4 and 8).",
)  # fmt: skip
@click.option(
    "--draft", "drafts", multiple=True, metavar="NAMES", default=("auto", "off"),
    help="Who drafts, as --draft of generate; may be given several times (default: auto and off).",
)  # fmt: skip
@click.option(
    "--prompts", type=click.Path(path_type=Path), metavar="FILE",
    help="One question per line; .jsonl: a string or an object with prompt, question, text or turns.",
)  # fmt: skip
@click.option(
    "--questions", type=click.IntRange(min=1), metavar="N", default=16, show_default=True,
    help="Ask the first N questions.",
)  # fmt: skip
@click.option(
    "--max-tokens", type=click.IntRange(min=1), default=64, show_default=True, metavar="N",
    help="Longest reply, in tokens.",
)  # fmt: skip
@click.option(
    "--context", type=click.IntRange(min=2), default=1024, show_default=True, metavar="N",
    help="Tokens that each conversation can hold; within --memory fewer, unless this is given.",
)  # fmt: skip
@click.option("--temperature", type=float, default=0.0, metavar="T", help="Draw, see generate.")
@click.option("--seed", type=int, default=0, metavar="S", help="See generate.")
@opt.threads_option
@opt.memory_option
@opt.kv_option
@opt.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    counts: tuple[int, ...],
    drafts: tuple[str, ...],
    prompts: Path | None,
    questions: int,
    max_tokens: int,
    context: int,
    temperature: float,
    seed: int,
    threads: int | None,
    memory: int | None,
    kv: KvType,
    as_json: bool,
) -> None:
    """Answer questions with several conversations at once over one model, and compare.

    Tokens per second are those of all replies by all time, prompts included; the ratio is to one conversation
    at a time that drafts the same way. Every reply is compared, token for token, with the one that plain
    decoding makes alone; where one differs, the exit status is 1.

    Every number at once and every way to draft has a process of its own, and so a peak of its own. With
    --memory each of them has to do with so much memory, all conversations together; replies are compared with
    those made in a cache as large. The exit status is 10 when one took more.
    """
    from edgedec.bench.conversations import QUESTIONS, Asked, measure
    from edgedec.bench.texts import read_prompts
    from edgedec.core.manifest import Manifest
    from edgedec.runtime.drafting import Drafting
    from edgedec.session.conversations import check_drafts
    from edgedec.telemetry.machine import physical_cores

    texts = list(read_prompts(prompts) if prompts else QUESTIONS)[:questions]
    if len(texts) < max(counts):
        raise UsageError(
            f"{len(texts)} questions are not enough for {max(counts)} conversations",
            hint="give more with --prompts, or a smaller --at-once",
        )
    bundle = common.find_bundle(ctx, model)
    manifest, threads = Manifest.load(bundle), threads or physical_cores()
    common.check_context(manifest, context)
    for draft in drafts:
        check_drafts(Drafting(draft))
    elastic = ctx.get_parameter_source("context") is ParameterSource.DEFAULT
    settings = {
        "threads": threads, "context": context, "kv": kv, "costs": str(seams(ctx).store().home / "costs"),
        "sampling": {"temperature": temperature, "seed": seed}, "max_tokens": max_tokens, "memory": memory,
        "elastic": elastic,
    }  # fmt: skip
    with common.steps() as progress:
        found = measure(Asked(bundle, texts, settings), counts=counts, drafts=drafts, progress=progress)
    if as_json:
        facts = {"model": manifest.name, "threads": threads, "questions": len(texts), "memory": memory}
        results = [one.as_json() for one in found]
        screen.show_json({**facts, "max_tokens": max_tokens, "kv": kv, "results": results})
    else:
        click.echo(f"{manifest.name}, {threads} threads, {len(texts)} questions\n")
        _print(found, memory)
    if over := sum(one.over for one in found):
        raise MemoryBudgetError(f"{over} of {len(found)} took more memory than --memory")
    if any(one.differ for one in found):
        ctx.exit(1)


def _print(found: list[Measured], memory: int | None) -> None:
    planned = ("planned", "budget") if memory else ()
    heads = ("at once", "drafts", "tokens/s", "each", "ratio", "peak memory", *planned, "differ")
    click.echo("".join(f"{head:>13}" for head in heads))
    for one in found:
        if one.refused:
            click.echo(f"{one.at_once:>13}{one.draft:>13}  {one.refused}")
            continue
        plan = (size(one.memory["planned_bytes"]), size(one.memory["budget_bytes"])) if one.memory else ()
        cells = (
            one.at_once,
            one.draft,
            f"{one.tokens_per_s:.1f}",
            f"{one.each_tokens_per_s:.1f}",
            "-" if one.ratio is None else f"{one.ratio:.2f}",
            size(one.peak_rss_bytes),
            *plan,
            one.differ,
        )
        click.echo("".join(f"{cell:>13}" for cell in cells))
    for one in found:
        for line in one.memory["given_up"] if one.memory else ():
            click.echo(f"{one.at_once} at once, drafts {one.draft}: {line}")
