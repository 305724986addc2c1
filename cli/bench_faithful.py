"""``edgedec bench faithful``: how close to the exact float32 model, on real text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli import bench_common as common
from edgedec.cli import options as opt
from edgedec.core.errors import UsageError

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
    ),
)
@opt.model_option
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
    "--reference", type=click.Choice(["numpy", "transformers"]), default="numpy", show_default=True,
    metavar="NAME",
    help="What computes the float32 logits from the GGUF file: numpy or transformers.",
)  # fmt: skip
@click.option(
    "--peer", "peers", metavar="NAME",
    help="Compare these with the reference too, by comma: llama.cpp, transformers.",
)  # fmt: skip
@common.gguf_option
@common.peer_python_option
@common.threads_option
@common.isa_option
@opt.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    texts: Sequence[Path],
    tokens: int,
    window: int,
    reference: str,
    peers: str | None,
    gguf: Path | None,
    peer_pythons: Sequence[str],
    threads: int | None,
    isa: str | None,
    as_json: bool,
) -> None:
    """Feed real text to EdgeDec and to a float32 run of the same weights, and compare every prediction.

    Prints how often the most probable next token is the same, and the mean KL divergence of EdgeDec's
    distribution from the reference's, in nats. The weights are the same quantised ones on all sides, so what
    is measured is the arithmetic: rounding of activations, and bugs.
    """
    from edgedec.bench import faithful, sides
    from edgedec.core.manifest import Manifest

    names = common.peer_names(peers, logits=True)
    bundle = common.find_bundle(ctx, model)
    manifest = Manifest.load(bundle)
    setting = common.Setting(common.chosen_threads(threads), window, isa, peer_pythons)
    common.check_context(manifest, window)
    windows = _windows(bundle, manifest, texts, tokens, window)
    file = common.find_gguf(model, gguf, manifest)
    exact = sides.reference(
        reference, file, python=setting.python(reference), threads=setting.threads, context=setting.context
    )
    everyone = common.all_sides(bundle, file, names, setting, all_rows=True)
    with common.steps() as progress:
        report = faithful.compare(exact, everyone, windows, progress=progress)
    if as_json:
        click.echo(json.dumps({"model": manifest.name, **report.as_json()}, ensure_ascii=False))
    else:
        _print(report, manifest.name)


def _windows(
    bundle: Path, manifest: Manifest, texts: Sequence[Path], tokens: int, window: int
) -> list[Window]:
    from edgedec.bench.faithful import windows_of
    from edgedec.bench.texts import read_text
    from edgedec.session.tokenizer import Tokenizer

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
    console = Console(highlight=False, markup=False)
    console.print(
        f"{model}, {positions} positions in windows of {report.window}; reference"
        f" {report.versions[report.reference]}, float32, perplexity {expected:.4f}",
        soft_wrap=True,
    )
    console.print(table)
