"""``edgedec bench run``: speed, load time and memory beside another runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.bench.sides import PEERS
from edgedec.cli import bench_common as common
from edgedec.cli import options as opt
from edgedec.cli.bench_options import Shared, plot_option, shared_options
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bench.versus import Measured, VersusReport
    from edgedec.core.manifest import Manifest

_WIDTH = 120


@click.command(
    "run",
    short_help="Decoding, prefill, load and memory, beside another runtime.",
    epilog=opt.examples(
        "edgedec bench run -m qwen2.5-coder-1.5b --peer llama.cpp --gguf qwen.gguf",
        "edgedec bench run -m model.gguf --peer llama.cpp --peer-python ~/llama/bin/python --threads 4",
        "edgedec bench run -m model.gguf --peer transformers,openvino-genai --plot speed.png",
        "edgedec bench run -m a.gguf --peer onnxruntime-genai --peer-python onnxruntime-genai=~/og/python",
        "edgedec bench run --prompts prompts.jsonl --limit 20 --max-tokens 128 --json",
    ),
)
@shared_options(PEERS)
@plot_option
@click.option(
    "--prompts", type=click.Path(path_type=Path), metavar="FILE",
    help="One prompt per line; .jsonl: a string or an object with prompt, question, text or turns.",
)  # fmt: skip
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    metavar="N",
    help="Most prompts used.",
)
@click.option(
    "--prompt-tokens", type=click.IntRange(min=1), metavar="N",
    help="Make every prompt this long, by repeating or cutting it.",
)  # fmt: skip
@click.option(
    "--max-tokens", type=click.IntRange(min=2), default=64, show_default=True, metavar="N",
    help="Tokens decoded after every prompt; end tokens do not end it.",
)  # fmt: skip
@click.option(
    "--repeat", type=click.IntRange(min=1), default=3, show_default=True, metavar="N", help="Rounds."
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    prompts: Path | None,
    limit: int,
    prompt_tokens: int | None,
    max_tokens: int,
    repeat: int,
    plot: Path | None,
    **given: Any,
) -> None:
    """Measure plain greedy decoding and prefill, alone or beside other runtimes in the same run.

    All sides get the same weights, token ids and threads, run in processes of their own and take turns on
    every prompt. Ratios are medians over these neighbouring measurements, with quartiles; load time includes
    a runtime's imports and is measured in fresh processes. For onnxruntime-genai the weights are
    quantised again, once, by its own model builder, which needs memory for them as float32 (and, in its
    version 0.18, cannot convert gemma3); the result is kept in EDGEDEC_HOME/peers.
    """
    from edgedec.bench import sides, versus
    from edgedec.bench.plot import check_plot, draw_versus
    from edgedec.core.manifest import Manifest

    shared = Shared(**given)
    if plot:
        check_plot(plot)
    names = shared.names(PEERS, "cannot be run")
    bundle = common.find_bundle(ctx, shared.model)
    manifest = Manifest.load(bundle)
    threads = shared.chosen_threads
    ids = _prompt_ids(bundle, manifest, prompts, limit, prompt_tokens)
    context = max(map(len, ids)) + max_tokens
    common.check_context(manifest, context)
    everyone = [sides.ours(bundle, threads=threads, context=context, isa=shared.isa)]
    everyone += common.all_peers(ctx, shared, manifest, names, context=context)
    plan = versus.Plan(tuple(ids), max_tokens, repeat)
    with common.steps() as progress:
        report = versus.compare(everyone, plan, progress=progress)
    if plot:
        draw_versus(report, plot, model=manifest.name, threads=threads)
    if shared.as_json:
        facts = {"model": manifest.name, "threads": threads, **report.as_json()}
        click.echo(json.dumps(facts, ensure_ascii=False))
    else:
        _print(report, manifest.name, threads)


def _prompt_ids(
    bundle: Path, manifest: Manifest, prompts: Path | None, limit: int, length: int | None
) -> list[tuple[int, ...]]:
    """Prompts as single user turns through the chat template, or as they are for a model without one."""
    from edgedec.bench.texts import PROMPTS, read_prompts
    from edgedec.session.assemble import load_template
    from edgedec.session.prompt import Message, Prompts
    from edgedec.session.tokenizer import Tokenizer

    texts = list(PROMPTS) if prompts is None else read_prompts(prompts)
    tokenizer = Tokenizer.load(bundle, manifest.tokenizer)
    builder = Prompts(tokenizer, load_template(bundle, tokenizer, manifest))
    ids = [tuple(builder.build([Message("user", text)]).ids) for text in texts[:limit]]
    if length is None:
        return ids
    return [(one * (length // len(one) + 1))[:length] for one in ids]


def _print(report: VersusReport, model: str, threads: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("", "decode tok/s", "prefill tok/s", "load s", "peak RSS"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for name, side in report.sides.items():
        facts = side.as_json()
        rates = _cell(facts["decode_tokens_per_s"], 1), _cell(facts["prefill_tokens_per_s"], 0)
        table.add_row(name, *rates, f"{facts['load_s']['median']:.2f}", size(side.peak_rss_bytes))
    for name, ratios in report.ratios().items():
        values = ratios.as_json()
        rates = _cell(values["decode"], 2), _cell(values["prefill"], 2)
        table.add_row(f"ratio to {name}", *rates, f"{ratios.load.median:.2f}", f"{ratios.peak_rss:.2f}")
    console = Console(highlight=False, markup=False)
    console.width = max(console.width, _WIDTH)  # a column cut short would be no figure
    lengths = [len(prompt) for prompt in report.plan.prompts]
    console.print(
        f"{model}, {threads} threads, {len(lengths)} prompts of {min(lengths)} to {max(lengths)} tokens,"
        f" {report.plan.max_tokens} tokens each, {report.plan.repeat} rounds; median (quartiles)",
        soft_wrap=True,
    )
    console.print(table)
    for name, side in report.sides.items():
        console.print(f"{name}: {side.version}, {side.isa}", soft_wrap=True)
        if side.planned_bytes:
            console.print(_memory(name, side), soft_wrap=True)
    console.print(
        "peak RSS: VmHWM of each side's process, its interpreter and the pages of mapped files included"
    )


def _memory(name: str, side: Measured) -> str:
    planned = " + ".join(
        f"{part.replace('_', ' ')} {_megabytes(count)}" for part, count in side.planned_bytes.items()
    )
    above = side.surplus_bytes
    rest = f"+ {_megabytes(above)}" if above >= 0 else f"- {_megabytes(-above)} (not all were touched)"
    return f"{name}: peak {_megabytes(side.peak_rss_bytes)} = {planned} {rest}"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def _cell(values: dict[str, float], digits: int) -> str:
    median, low, high = (f"{values[key]:.{digits}f}" for key in ("median", "low", "high"))
    return f"{median} ({low}-{high})"
