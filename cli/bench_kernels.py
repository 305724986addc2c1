"""``edgedec bench kernels``: what a pass over k tokens costs."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli import options as opt
from edgedec.cli.bench_common import find_bundle, isa_option, plot_option, steps, threads_option
from edgedec.cli.seams import seams
from edgedec.core.errors import UsageError
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bench.passes import KernelReport

TOKENS = "1,2,4,8,16,32,128"


@click.command(
    "kernels",
    short_help="What a pass over k tokens costs.",
    epilog=opt.examples(
        "edgedec bench kernels -m qwen2.5-coder-1.5b",
        "edgedec bench kernels --tokens 1,2,3,4,5,6,7,8 --isa avx2 --json",
        "edgedec bench kernels -m gemma3-270m --plot passes.svg",
    ),
)
@opt.model_option
@click.option("--tokens", default=TOKENS, show_default=True, metavar="LIST", help="Tokens per pass.")
@click.option(
    "--resident", type=click.IntRange(min=0), default=128, show_default=True, metavar="N",
    help="Tokens that are in the cache already.",
)  # fmt: skip
@click.option(
    "--repeat", type=click.IntRange(min=1), default=15, show_default=True, metavar="N",
    help="Rounds; every round times each number of tokens once.",
)  # fmt: skip
@threads_option
@isa_option
@plot_option
@opt.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    tokens: str,
    resident: int,
    repeat: int,
    threads: int | None,
    isa: str | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Time whole passes of a model over 1, 2, 4, ... tokens, the heads of all of them included.

    A pass over k tokens is what checks k - 1 drafted ones, so its cost relative to one token says how much
    drafting can gain. The bandwidth fraction says how near passes over one token are to the speed at which
    this machine can read the weights at all. Medians; in the table with quartiles.
    """
    from edgedec.bench.plot import check_plot, draw_passes

    counts = _counts(tokens)
    if plot:
        check_plot(plot)
    if isa:
        os.environ["EDGEDEC_ISA"] = isa
    report = _measure(ctx, find_bundle(ctx, model), counts, resident, repeat, threads)
    if plot:
        draw_passes(report, plot)
    if as_json:
        click.echo(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        _print(report)


def _counts(text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = [0]
    if min(counts) < 1:
        raise UsageError(f"--tokens {text} is not a list of numbers above 0", hint=f"for example {TOKENS}")
    return counts


def _measure(
    ctx: click.Context, bundle: Path, counts: list[int], resident: int, repeat: int, threads: int | None
) -> KernelReport:
    from edgedec.bench.passes import KernelReport, measure_passes
    from edgedec.bench.weights import bytes_per_pass
    from edgedec.telemetry.bandwidth import measure

    given = seams(ctx)
    weights = bytes_per_pass(bundle)
    loaded = given.load(bundle, threads=threads, context=max(256, resident + max(counts)))
    before = measure(given.bandwidth, [loaded.threads])
    with steps() as step:
        passes = measure_passes(
            loaded.forward,
            counts,
            resident=resident,
            repeat=repeat,
            clock=time.perf_counter,
            progress=lambda done, total: step("passes", done, total),
        )
    # Twice, and the better one: what disturbs a reading only ever makes it smaller.
    readings = before + measure(given.bandwidth, [loaded.threads])
    best = max(reading.gb_per_s for reading in readings)
    name = loaded.manifest.name
    return KernelReport(name, loaded.isa, loaded.threads, resident, weights, best, passes)


def _print(report: KernelReport) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("tokens", "ms", "quartiles", "relative", "per token"):
        table.add_column(heading, justify="right")
    for cost in report.passes:
        table.add_row(
            str(cost.tokens),
            f"{cost.ms.median:.2f}",
            f"{cost.ms.low:.2f} - {cost.ms.high:.2f}",
            f"{cost.relative.median:.2f}",
            f"{cost.relative.median / cost.tokens:.2f}",
        )
    console = Console(highlight=False, markup=False)
    console.print(
        f"{report.model}, {report.isa}, {report.threads} threads, {report.resident} tokens resident"
    )
    console.print(table)
    console.print(
        f"{size(report.weight_bytes)} of weights per pass: {report.bandwidth_fraction:.0%} of"
        f" {report.bandwidth_gb_s:.1f} GB/s"
    )
