"""``edgedec bench run``: speed, load time and memory beside another runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.bench.sides import DRAFTING_PEERS, PEERS
from edgedec.cli import bench_common as common
from edgedec.cli import bench_contest as contest
from edgedec.cli import options as opt
from edgedec.cli.bench_options import Shared, levels_option, shared_options
from edgedec.cli.bench_table import megabytes
from edgedec.core.errors import UsageError
from edgedec.core.units import size
from edgedec.sampling import SamplingParams

if TYPE_CHECKING:
    from edgedec.bench.versus import Measured, VersusReport

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
        "edgedec bench run --prompts spec_bench.jsonl --per-category 4 --draft lookup --draft auto",
        "edgedec bench run -m q.gguf --draft auto --peer llama.cpp,llama.cpp-ngram --save run.jsonl",
        "edgedec bench run --prompts spec_bench.jsonl --memory 230MB --memory -65%",
        "edgedec bench run --prompts spec_bench.jsonl --memory curve --plot curve.png",
    ),
)
@shared_options((*PEERS, *(name for name in DRAFTING_PEERS if name not in PEERS)))
@opt.plot_option
@click.option(
    "--prompts", type=click.Path(path_type=Path), metavar="FILE",
    help="One prompt per line; .jsonl: a string or an object with prompt, question, text or turns.",
)  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N",
    help="Most prompts used (default: 8; all of a run with drafts or categories).",
)  # fmt: skip
@click.option(
    "--prompt-tokens", type=click.IntRange(min=1), metavar="N",
    help="Make every prompt this long, by repeating or cutting it.",
)  # fmt: skip
@click.option(
    "--max-tokens", type=click.IntRange(min=2), default=64, show_default=True, metavar="N",
    help="Tokens decoded after every prompt; end tokens end a reply only with drafts or categories.",
)  # fmt: skip
@click.option("--repeat", type=click.IntRange(min=1), metavar="N", help="Rounds (default: 3).")
@click.option(
    "--draft", "drafts", multiple=True, metavar="NAMES",
    help="Measure drafting beside plain decoding, as --draft of generate; may be given several times.",
)  # fmt: skip
@click.option(
    "--categories", metavar="NAMES", help="Ask the questions of these categories of --prompts, by comma."
)
@click.option(
    "--per-category", type=click.IntRange(min=1), metavar="N", help="Ask the first N of each category."
)
@click.option("--turns", type=click.IntRange(min=1), metavar="N", help="Ask N turns of each question.")
@click.option("--ignore-end", is_flag=True, help="With drafts: replies of exactly --max-tokens.")
@click.option("--cold", is_flag=True, help="Drafters forget after every question.")
@click.option(
    "--save", type=click.Path(path_type=Path), metavar="FILE",
    help="Append every reply as it is measured; the same command goes on where it was stopped.",
)  # fmt: skip
@click.option("--temperature", type=float, default=0.0, metavar="T", help="With drafts: draw, see generate.")
@click.option("--top-p", type=float, default=1.0, metavar="P", help="With drafts: see generate.")
@click.option("--seed", type=int, default=0, metavar="S", help="With drafts: see generate.")
@levels_option
@click.option(
    "--context", type=click.IntRange(min=2), metavar="N",
    help="With --memory: tokens of context that sessions would like (default: what the questions need).",
)  # fmt: skip
@click.option(
    "--chat-context", is_flag=True,
    help="With --memory: the context that chat has without --context, which gets shorter before all else.",
)  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context,
    /,
    prompts: Path | None,
    limit: int | None,
    prompt_tokens: int | None,
    max_tokens: int,
    repeat: int | None,
    plot: Path | None,
    **given: Any,
) -> None:
    """Measure plain greedy decoding and prefill, alone or beside other runtimes in the same run.

    All sides get the same weights, token ids and threads, run in processes of their own and take turns on
    every prompt. Ratios are medians over these neighbouring measurements, with quartiles; load time includes
    a runtime's imports and is measured in fresh processes. For onnxruntime-genai the weights are
    quantised again, once, by its own model builder, which needs memory for them as float32 (and, in its
    version 0.18, cannot convert gemma3); the result is kept in EDGEDEC_HOME/peers.

    With --draft, --categories, --per-category or a peer that drafts, every way to draft answers every turn
    of the questions (format of Spec-Bench), and results are per category. Speed-ups are medians over pairs
    of neighbouring replies, and ratios of all tokens by all time. Drafters keep what they learn during the
    run. Every reply of EdgeDec is compared with plain decoding's: where one differs, the exit status is 1.
    llama.cpp-lookup drafts as llama-cpp-python does, llama.cpp-ngram as ngram-simple of llama.cpp's tools
    (sizes: llama.cpp-ngram:12:48); the ways of one runtime share a process.

    With --memory every way to draft (default: auto) answers within each budget, in a process per budget, and
    beside one that gives nothing up, to which speeds are compared. Sessions want the context that the longest
    conversation needs, or --context, or with --chat-context what a chat has, down to 1024 tokens before
    anything else is given up. What they take beside the weights and the loaded process is called
    generation memory: cache, scratch, rows, tables, the model that drafts, slack. "generation" is what was
    planned, "measured" the peak less the process as loaded and the weights that are resident; "+ process"
    adds the process to the planned, for those who count it. Where a context is shorter, the oldest turns are
    dropped as in a chat; what does not fit at all is counted, and compared with nothing. If a side takes more
    than its budget, the exit status is 10. --plot then draws speed over generation memory.
    """
    from edgedec.bench.plot import check_plot

    wanted = _wanted(given, limit, max_tokens)
    shared = Shared(**given)
    if plot:
        check_plot(plot)
    if contest.is_wanted(shared, prompts, wanted):
        if repeat or prompt_tokens:
            raise UsageError(
                "--repeat and --prompt-tokens have no place in a run with drafts or categories",
                hint="drafters know the answer to a question that is asked again",
            )
        contest.run(ctx, shared, wanted, prompts, plot)
        return
    ids = prompts, limit or 8, prompt_tokens
    _plain(ctx, shared, ids, max_tokens, repeat or 3, plot)


def _wanted(given: dict[str, Any], limit: int | None, max_tokens: int) -> contest.Wanted:
    """Take the options of runs with drafts out of a command's keyword arguments."""
    params = SamplingParams(
        temperature=given.pop("temperature"), top_p=given.pop("top_p"), seed=given.pop("seed")
    )
    names = (
        "drafts",
        "categories",
        "per_category",
        "turns",
        "ignore_end",
        "cold",
        "save",
        "levels",
        "context",
        "chat_context",
    )
    taken = {name: given.pop(name) for name in names}
    return contest.Wanted(limit=limit, max_tokens=max_tokens, params=params, **taken)


def _plain(
    ctx: click.Context,
    shared: Shared,
    asked: tuple[Path | None, int, int | None],
    max_tokens: int,
    repeat: int,
    plot: Path | None,
) -> None:
    """Plain decoding alone or beside peers; ``asked``: file, most prompts, and the length to make them."""
    from edgedec.bench import sides, versus
    from edgedec.bench.plot import draw_versus
    from edgedec.core.manifest import Manifest

    names = shared.names(PEERS, "cannot be run")
    bundle = common.find_bundle(ctx, shared.model)
    manifest = Manifest.load(bundle)
    threads = shared.chosen_threads
    ids = common.prompt_ids(bundle, manifest, *asked)
    context = max(map(len, ids)) + max_tokens
    common.check_context(manifest, context)
    everyone = [sides.ours(bundle, threads=threads, context=context, isa=shared.isa, kv=shared.kv)]
    everyone += common.all_peers(ctx, shared, manifest, names, context=context)
    plan = versus.Plan(tuple(ids), max_tokens, repeat)
    with common.steps() as progress:
        report = versus.compare(everyone, plan, progress=progress)
    if plot:
        draw_versus(report, plot, model=manifest.name, threads=threads)
    if shared.as_json:
        facts = {"model": manifest.name, "threads": threads, "kv": shared.kv, **report.as_json()}
        click.echo(json.dumps(facts, ensure_ascii=False))
    else:
        _print(report, manifest.name, threads)


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
        f"{part.replace('_', ' ')} {megabytes(count)}" for part, count in side.planned_bytes.items()
    )
    above = side.surplus_bytes
    rest = f"+ {megabytes(above)}" if above >= 0 else f"- {megabytes(-above)} (not all were touched)"
    return f"{name}: peak {megabytes(side.peak_rss_bytes)} = {planned} {rest}"


def _cell(values: dict[str, float], digits: int) -> str:
    median, low, high = (f"{values[key]:.{digits}f}" for key in ("median", "low", "high"))
    return f"{median} ({low}-{high})"
