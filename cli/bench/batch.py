"""``edgedec bench batch``: tokens per second of several conversations in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.options import StudyOptions, count_option, input_option, last_options
from edgedec.cli.command import new_command
from edgedec.core.cache_config import MOST_SEQUENCES
from edgedec.core.errors import MemoryBudgetError, UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bench.studies.batch import BatchRow, BatchStudy
    from edgedec.bundle.manifest import Manifest

_CONTEXT_TOKENS = 1024
"""Context of each conversation that has no memory budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions(StudyOptions):
    sizes: tuple[int, ...]
    drafts: tuple[str, ...]
    file: Path | None
    max_tokens: int
    memory: int | None


@new_command(
    "batch",
    "edgedec bench batch -m qwen2.5-coder-1.5b --batch 1 --batch 2 --batch 4 --batch 8",
    "edgedec bench batch --batch 4 --draft auto --draft off --max-tokens 200 --json",
    "edgedec bench batch --batch 4 --batch 8 --memory 400MB",
)
@opt.model_option
@click.option(
    "--batch", "sizes", multiple=True, type=click.IntRange(1, MOST_SEQUENCES), metavar="N",
    default=(1, 2, 4, 8),
    help="Conversations in a batch; may be given several times (default: 1, 2, 4 and 8).",
)  # fmt: skip
@click.option(
    "--draft", "drafts", multiple=True, metavar="NAMES", default=("auto", "off"),
    help="Drafters, as --draft of generate; may be given several times (default: auto and off).",
)  # fmt: skip
@input_option("One question per line; .jsonl: a string or an object with prompt, question, text or turns.")
@count_option("--max-tokens", "Longest reply, in tokens.", 64)
@opt.memory_option
@last_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Answer questions with several conversations in one batch, and compare.

    Tokens per second count all replies and all time, prompts included. Ratios are to a batch of one with the
    same drafts. Every reply is compared, token for token, with the one that plain decoding makes alone; where
    one differs, the exit status is 1.

    The energy of a token is that of all replies and their prompts; ~ marks an estimate, not a measurement.

    Every batch size and every drafter set has a process of its own, and so a peak of its own. With --memory
    each process has that budget for all its conversations together; replies are compared with those made in a
    KV cache of the same size. The exit status is 10 when one took more.
    """
    from edgedec.bench.studies.batch import measure_batches

    options = BatchOptions(**given)
    texts = _texts(options)
    bundle, manifest = inputs.find_model(ctx, options.model)
    study = _study(ctx, options, manifest, bundle, texts)
    with inputs.steps() as progress:
        found = measure_batches(study, progress)
    if options.as_json:
        facts = {"model": manifest.name, "threads": study.run.threads, "questions": len(texts)}
        facts |= {"memory": options.memory, "max_tokens": options.max_tokens}
        screen.show_json({**facts, "results": [one.as_json() for one in found]})
    else:
        click.echo(f"{manifest.name}, {study.run.threads} threads, {len(texts)} questions\n")
        _show(found, options.memory)
    if over := sum(one.over for one in found):
        raise MemoryBudgetError(f"{over} of {len(found)} took more memory than --memory")
    if any(one.differ for one in found):
        ctx.exit(1)


def _texts(options: BatchOptions) -> list[str]:
    from edgedec.bench.harness.texts import QUESTIONS, read_prompts

    texts = list(read_prompts(options.file) if options.file else QUESTIONS)
    if len(texts) < max(options.sizes):
        raise UsageError(
            f"{len(texts)} questions are not enough for a batch of {max(options.sizes)}",
            hint="give more with --input, or a smaller --batch",
        )
    return texts


def _study(
    ctx: click.Context, options: BatchOptions, manifest: Manifest, bundle: Path, texts: Sequence[str]
) -> BatchStudy:
    from edgedec.assemble.checks import check_batch_drafting
    from edgedec.bench.harness.memory_levels import Level
    from edgedec.bench.harness.runtimes import OwnRun
    from edgedec.bench.studies.batch import BatchStudy
    from edgedec.drafters.registry import parsed, resolved

    for draft in options.drafts:
        check_batch_drafting(resolved(parsed(draft), None).drafters)
    models = inputs.find_draft_models(ctx, options.drafts)
    level = Level("size", options.memory, size(options.memory)) if options.memory else None
    run = OwnRun(
        threads=options.chosen_threads,
        home=inputs.home(ctx),
        context=None if level else min(_CONTEXT_TOKENS, manifest.spec.context_length),
        level=level,
        max_tokens=options.max_tokens,
        draft_models=models,
    )
    return BatchStudy(bundle, texts, run, options.sizes, options.drafts)


def _show(found: Sequence[BatchRow], memory: int | None) -> None:
    planned = ("planned", "budget") if memory else ()
    heads = ("batch", "drafts", "tokens/s", "each", "ratio", "mJ/token", "peak memory", *planned, "differ")
    click.echo("".join(f"{head:>13}" for head in heads))
    for one in found:
        if one.refused:
            click.echo(f"{one.batch:>13}{one.draft:>13}  {one.refused}")
            continue
        plan = (size(one.memory["planned_bytes"]), size(one.memory["budget_bytes"])) if one.memory else ()
        cells = (
            one.batch,
            one.draft,
            f"{one.tokens_per_s:.1f}",
            f"{one.each_tokens_per_s:.1f}",
            "-" if one.ratio is None else f"{one.ratio:.2f}",
            _energy(one),
            size(one.peak_rss_bytes),
            *plan,
            one.differ,
        )
        click.echo("".join(f"{cell:>13}" for cell in cells))
    for source in dict.fromkeys(one.energy["source"] for one in found if one.energy):
        click.echo(f"energy, prompts included: {source}")
    for one in found:
        for line in one.memory["given_up"] if one.memory else ():
            click.echo(f"batch of {one.batch}, drafts {one.draft}: {line}")


def _energy(row: BatchRow) -> str:
    """Return millijoules a token; an estimate begins with ~."""
    each = row.energy["joules_per_token"]
    return "-" if each is None else f"{'~' if row.energy['estimated'] else ''}{1e3 * each:.1f}"
