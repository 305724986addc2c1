"""``edgedec bench faithful``: how close to the exact float32 model, on real text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.bench.sides import WITH_LOGITS
from edgedec.cli import bench_common as common
from edgedec.cli import options as opt
from edgedec.cli.bench_options import Shared, shared_options
from edgedec.core.errors import UsageError
from edgedec.core.units import size
from edgedec.core.when_full import LOSSY

if TYPE_CHECKING:
    from edgedec.bench.faithful import FaithfulReport, Window
    from edgedec.core.manifest import Manifest


@click.command(
    "faithful",
    short_help="Agreement with the exact float32 model on real text.",
    epilog=opt.examples(
        "edgedec bench faithful -m smollm2.gguf --text book.txt --text program.py",
        "edgedec bench faithful -m gemma3-270m --gguf gemma3.gguf --text book.txt --window 1024",
        "edgedec bench faithful -m qwen.gguf --text a.txt --reference transformers --peer llama.cpp --json",
        "edgedec bench faithful -m gemma3-270m --text book.txt --kv int8 --reference fp16",
        "edgedec bench faithful --text book.txt --reference fp16 --when-full speckv --context 256",
    ),
)
@shared_options(WITH_LOGITS)
@click.option(
    "--text", "texts", type=click.Path(path_type=Path), multiple=True, required=True, metavar="FILE",
    help="UTF-8 text, or .jsonl prompts; of several files an equal share of tokens is taken.",
)  # fmt: skip
@click.option(
    "--tokens", type=click.IntRange(min=1), default=2000, show_default=True, metavar="N",
    help="Tokens of text compared.",
)  # fmt: skip
@click.option(
    "--window", type=click.IntRange(min=2), default=512, show_default=True, metavar="N",
    help="Tokens per pass; every window starts from an empty cache.",
)  # fmt: skip
@click.option(
    "--reference", type=click.Choice(["numpy", "transformers", "fp16"]), default="numpy",
    show_default=True, metavar="NAME",
    help="What computes the float32 logits from the GGUF file: numpy or transformers. Or fp16: EdgeDec with "
    "the cache in fp16, to see what --kv int8 or --when-full costs.",
)  # fmt: skip
@click.option(
    "--when-full", type=click.Choice(LOSSY), metavar="WHAT",
    help="Give EdgeDec a cache of --context tokens, less than the window: slide or speckv, as with generate.",
)  # fmt: skip
@click.option(
    "--context", type=click.IntRange(min=16), metavar="N", help="Tokens of the cache for --when-full."
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    texts: Sequence[Path],
    tokens: int,
    window: int,
    reference: str,
    when_full: str | None,
    context: int | None,
    **given: Any,
) -> None:
    """Feed real text to EdgeDec and to a float32 run of the same weights, and compare every prediction.

    Prints how often the most probable next token is the same, and the mean KL divergence of EdgeDec's
    distribution from the reference's, in nats. The weights are the same quantised ones on all sides, so what
    is measured is the arithmetic: rounding of activations, and bugs.
    """
    from edgedec.bench import faithful, sides
    from edgedec.core.manifest import Manifest
    from edgedec.memory import kv_bytes

    shared = Shared(**given)
    names = shared.names(WITH_LOGITS, "does not show its logits")
    bundle = common.find_bundle(ctx, shared.model)
    manifest = Manifest.load(bundle)
    threads = shared.chosen_threads
    common.check_context(manifest, window)
    common.check_when_full(when_full, context)
    windows = _windows(bundle, manifest, texts, tokens, window)
    ours = sides.ours(
        bundle,
        threads=threads,
        context=context or window,
        isa=shared.isa,
        kv=shared.kv,
        when_full=when_full,
    )
    if reference == "fp16":
        exact = replace(sides.ours(bundle, threads=threads, context=window, isa=shared.isa), name=reference)
    else:
        file = common.find_gguf(shared.model, shared.gguf, manifest)
        python = shared.python(reference)
        exact = sides.reference(reference, file, python=python, threads=threads, context=window)
    everyone = [ours]
    everyone += common.all_peers(ctx, shared, manifest, names, context=window, all_rows=True)
    with common.steps() as progress:
        report = faithful.compare(exact, everyone, windows, progress=progress)
    per_token = kv_bytes(manifest.spec, 1, shared.kv)
    if shared.as_json:
        facts = {"model": manifest.name, "kv": shared.kv, "kv_bytes_per_token": per_token}
        facts |= {"when_full": when_full, "context": context}
        click.echo(json.dumps({**facts, **report.as_json()}, ensure_ascii=False))
    else:
        _print(report, manifest.name)
        if manifest.kind == "edgedec":
            click.echo(f"cache of EdgeDec in {shared.kv}: {size(per_token)} a token")


def _windows(
    bundle: Path, manifest: Manifest, texts: Sequence[Path], tokens: int, window: int
) -> list[Window]:
    from edgedec.bench.faithful import windows_of
    from edgedec.bench.texts import read_text
    from edgedec.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(bundle, manifest.tokenizer)
    bos = manifest.tokenizer.bos_id if manifest.tokenizer.add_bos else None
    windows = []
    for index, path in enumerate(texts):
        share = tokens // len(texts) + (index < tokens % len(texts))
        ids = tokenizer.encode(read_text(path), add_bos=False)
        if len(ids) < share:
            raise UsageError(
                f"{path} has {len(ids)} tokens, and {share} are wanted",
                hint="give more text, or less --tokens",
            )
        windows += windows_of(ids[:share], window, bos)
    return windows


def _print(report: FaithfulReport, model: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("", "same top-1", "mean KL", "median", "99 %", "worst", "perplexity"):
        table.add_column(heading, justify="right" if heading else "left")
    positions, expected = 0, 0.0
    for name, divergence in report.sides.items():
        facts = divergence.as_json()
        positions, expected = int(facts["positions"]), facts["reference_perplexity"]
        agreement = f"{facts['top1_agreement']:.2%}"
        kl = [f"{facts[key]:.2e}" for key in ("kl_mean", "kl_median", "kl_p99", "kl_max")]
        table.add_row(name, agreement, *kl, f"{facts['perplexity']:.4f}")
    kind = "cache in fp16" if report.reference == "fp16" else "float32"
    console = Console(highlight=False, markup=False)
    console.print(
        f"{model}, {positions} positions in windows of {report.window}; reference"
        f" {report.versions[report.reference]}, {kind}, perplexity {expected:.4f}",
        soft_wrap=True,
    )
    console.print(table)
