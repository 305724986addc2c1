"""``edgedec bench kernels``: what a pass over k tokens costs."""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.bench.sides import WITH_PASSES
from edgedec.cli import bench_common as common
from edgedec.cli import options as opt
from edgedec.cli.bench_options import Shared, shared_options
from edgedec.cli.seams import seams
from edgedec.core.errors import UsageError
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bench.passes import KernelReport, PassCost

TOKENS = "1,2,4,8,16,32,128"
_WIDTH = 120


@click.command(
    "kernels",
    short_help="What a pass over k tokens costs.",
    epilog=opt.examples(
        "edgedec bench kernels -m qwen2.5-coder-1.5b",
        "edgedec bench kernels --tokens 1,2,3,4,5,6,7,8 --isa avx2 --json",
        "edgedec bench kernels -m gemma3-270m --plot passes.svg",
        "edgedec bench kernels -m model.gguf --peer llama.cpp --peer-python ~/llama/bin/python",
    ),
)
@shared_options(WITH_PASSES)
@opt.plot_option
@click.option("--tokens", default=TOKENS, show_default=True, metavar="LIST", help="Tokens per pass.")
@click.option(
    "--resident", type=click.IntRange(min=0), default=128, show_default=True, metavar="N",
    help="Tokens that are in the cache already.",
)  # fmt: skip
@click.option(
    "--repeat", type=click.IntRange(min=1), default=15, show_default=True, metavar="N",
    help="Rounds; every round times each number of tokens once.",
)  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context,
    /,
    tokens: str,
    resident: int,
    repeat: int,
    plot: Path | None,
    **given: Any,
) -> None:
    """Time whole passes of a model over 1, 2, 4, ... tokens, the heads of all of them included.

    A pass over k tokens is what checks k - 1 drafted ones, so its cost relative to one token says how much
    drafting can gain. A peer's passes have the same numbers of tokens, with logits for all of them, and
    take turns with ours in the same rounds. The bandwidth fraction says how near passes over one token are
    to the speed at which this machine can read the weights at all. Medians; in the table with quartiles.
    """
    from edgedec.bench.plot import check_plot, draw_passes

    shared = Shared(**given)
    counts = _counts(tokens)
    if plot:
        check_plot(plot)
    names = shared.names(WITH_PASSES, "cannot take tokens back after a pass")
    if shared.isa:
        os.environ["EDGEDEC_ISA"] = shared.isa
    report = _measure(ctx, shared, names, counts, resident, repeat)
    if plot:
        draw_passes(report, plot)
    if shared.as_json:
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
    ctx: click.Context, shared: Shared, names: list[str], counts: list[int], resident: int, repeat: int
) -> KernelReport:
    from edgedec.bench import passes
    from edgedec.bench.weights import bytes_per_pass
    from edgedec.bench.worker import Worker
    from edgedec.telemetry.bandwidth import measure

    given = seams(ctx)
    bundle = common.find_bundle(ctx, shared.model)
    context = max(256, resident + max(counts))
    loaded = given.load(bundle, threads=shared.threads, context=context, kv=shared.kv)
    peers = common.all_peers(ctx, shared, loaded.manifest, names, context=context, all_rows=True)
    before = measure(given.bandwidth, [loaded.threads])
    with ExitStack() as stack:
        step = stack.enter_context(common.steps())
        workers = [stack.enter_context(Worker(peer)) for peer in peers]
        versions = {worker.side.name: worker.open()["version"] for worker in workers}
        times = passes.measure_passes(
            loaded.forward,
            counts,
            resident=resident,
            repeat=repeat,
            clock=time.perf_counter,
            progress=lambda done, total: step("passes", done, total),
            peers=workers,
        )
    # Twice, and the better one: what disturbs a reading only ever makes it smaller.
    readings = before + measure(given.bandwidth, [loaded.threads])
    ours = times[passes.OURS]
    return passes.KernelReport(
        loaded.manifest.name, loaded.isa, loaded.threads, resident, bytes_per_pass(bundle),
        max(reading.gb_per_s for reading in readings), passes.costs(ours),
        {name: passes.peer_costs(times[name], ours) for name in names}, versions, loaded.kv,
    )  # fmt: skip


def _print(report: KernelReport) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    headings = ["tokens", "ms", "quartiles", "relative", "per token"]
    for name in report.peers:
        headings += [f"{name} ms", "relative", "its time by ours"]
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for index, cost in enumerate(report.passes):
        cells = [str(cost.tokens), *_cells(cost), f"{cost.relative.median / cost.tokens:.2f}"]
        for costs in report.peers.values():
            theirs, ratio = costs[index].cost, costs[index].ratio
            cells += [f"{theirs.ms.median:.2f}", f"{theirs.relative.median:.2f}"]
            cells.append(f"{ratio.median:.2f} ({ratio.low:.2f}-{ratio.high:.2f})")
        table.add_row(*cells)
    console = Console(highlight=False, markup=False)
    console.width = max(console.width, _WIDTH)  # a column cut short would be no figure
    console.print(
        f"{report.model}, {report.isa}, {report.threads} threads, {report.resident} tokens resident"
        + (f" in {report.kv}" if report.kv else "")
    )
    console.print(table)
    console.print(
        f"{size(report.weight_bytes)} of weights per pass: {report.bandwidth_fraction:.0%} of"
        f" {report.bandwidth_gb_s:.1f} GB/s"
    )
    for name, version in report.versions.items():
        console.print(f"{name}: {version}")


def _cells(cost: PassCost) -> list[str]:
    quartiles = f"{cost.ms.low:.2f} - {cost.ms.high:.2f}"
    return [f"{cost.ms.median:.2f}", quartiles, f"{cost.relative.median:.2f}"]
