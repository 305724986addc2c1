"""``edgedec bench kernels``: cost of a pass over k tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from edgedec.bench.harness.runtimes import EDGEDEC, WITH_PASSES
from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.options import (
    PeerOptions,
    count_option,
    last_options,
    peer_option,
)
from edgedec.cli.command import new_command
from edgedec.cli.services import services
from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import size

if TYPE_CHECKING:
    from rich.table import Table

    from edgedec.bench.studies.kernels import KernelReport
    from edgedec.core.cache_config import Device
    from edgedec.memory import KvType

TOKENS = "1,2,4,8,16,32,128"
_LEAST_CONTEXT_TOKENS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelOptions(PeerOptions):
    tokens: str
    resident: int
    repeat: int
    kv: KvType
    device: Device

    @property
    def counts(self) -> list[int]:
        """Tokens of each pass. Raises UsageError."""
        try:
            counts = [int(part) for part in self.tokens.split(",")]
        except ValueError:
            counts = [0]
        if min(counts) < 1:
            hint = f"for example {TOKENS}"
            raise UsageError(f"--tokens {self.tokens} is not a list of numbers above 0", hint=hint)
        return counts


@new_command(
    "kernels",
    "edgedec bench kernels -m qwen2.5-coder-1.5b",
    "EDGEDEC_ISA=avx2 edgedec bench kernels --tokens 1,2,3,4,5,6,7,8 --json",
    "edgedec bench kernels -m ./my-npu-model --device npu --tokens 1,8,32 --repeat 5",
    "edgedec bench kernels --device gpu --tokens 1,16",
    "edgedec bench kernels -m model.gguf --peer llama.cpp=~/llama/bin/python",
)
@opt.model_option
@click.option("--tokens", default=TOKENS, show_default=True, metavar="LIST", help="Tokens per pass.")
@count_option("--resident", "Tokens in the KV cache before a pass.", 128, least=0)
@count_option("--repeat", "Rounds; every round times each number of tokens once.", 15)
@peer_option(WITH_PASSES)
@opt.kv_option_of("fp16", "int8")
@opt.device_option
@last_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Time whole passes of a model over 1, 2, 4, ... tokens, with logits of all of them.

    A pass over k tokens verifies k - 1 drafted ones. Its cost relative to one token tells how much drafts can
    gain. On a GPU a second table has the time of each kernel by the device's own clock, and the weights that
    it reads per second. A peer's passes have the same numbers of tokens and take turns with EdgeDec's in the
    same rounds. The bandwidth fraction compares the weights that passes over one token read per second with
    the speed at which this machine can read memory. Figures are medians; the table has quartiles.
    """
    options = KernelOptions(**given)
    counts = options.counts
    report = _measure(ctx, options, counts)
    if options.as_json:
        screen.show_json(report.as_json())
    else:
        _show(report)


def _measure(ctx: click.Context, options: KernelOptions, counts: list[int]) -> KernelReport:
    from edgedec.backends.open import runtime_of
    from edgedec.bench.harness.energy import EnergyProbe
    from edgedec.bench.harness.runtimes import OwnRun
    from edgedec.bench.studies import kernels
    from edgedec.bench.studies.gpu_kernels import GpuStudy, measure_kernels
    from edgedec.bench.studies.weights import pass_weights
    from edgedec.bundle.manifest import WEIGHTS
    from edgedec.metrics.measures import traffic_of
    from edgedec.telemetry.bandwidth import measure

    given, threads = services(ctx), options.chosen_threads
    names = options.peer_names(WITH_PASSES, "cannot take tokens back after a pass")
    bundle, manifest = inputs.find_model(ctx, options.model)
    context = max(_LEAST_CONTEXT_TOKENS, options.resident + max(counts))
    inputs.check_context(manifest, context)
    isa, spec = runtime_of(manifest, options.device), manifest.spec
    sides = [OwnRun(threads, inputs.home(ctx), context, options.kv, options.device).side(bundle)]
    sides += inputs.peer_sides(ctx, options, manifest, names, context=context, all_rows=True)
    before = measure(given.bandwidth, [threads])
    probe = EnergyProbe()
    study = kernels.PassStudy(counts, options.resident, options.repeat, spec.vocab_size, energy=probe)
    with inputs.steps() as progress:
        journal = kernels.measure_passes(sides, study, progress)
        timed = GpuStudy(counts, options.resident, options.repeat, context)
        on_gpu = measure_kernels(bundle, timed, progress) if options.device == "gpu" else ()
    # Read twice; the better one counts, because disturbances only make a reading smaller.
    readings = before + measure(given.bandwidth, [threads])
    ours = kernels.times_of(journal, EDGEDEC)
    traffic = traffic_of(spec, manifest.files[WEIGHTS].bytes, options.kv)
    return kernels.KernelReport(
        manifest.name, isa, threads, options.resident,
        pass_weights(bundle).streamed, max(reading.gb_per_s for reading in readings),
        kernels.pass_costs(ours),
        {name: kernels.peer_costs(kernels.times_of(journal, name), ours) for name in names},
        {name: journal.opened[name]["version"] for name in names},
        journal.opened[EDGEDEC]["kv"],
        kernels.energies_of_passes(journal, study, traffic, spec.window, probe.reason),
        on_gpu,
    )  # fmt: skip


def _show(report: KernelReport) -> None:
    from edgedec.cli.bench.tables import new_table, quartiles, wide_console

    headings = ["tokens", "ms", "quartiles", "relative", "per token"]
    energies = report.energies.by_side if report.energies else {}
    if energies:
        headings.append("mJ/token")
    for name in report.peers:
        headings += [f"{name} ms", "relative", "its time by ours"]
    table = new_table(headings)
    for index, cost in enumerate(report.passes):
        cells = [str(cost.tokens), f"{cost.ms.median:.2f}", f"{cost.ms.low:.2f} - {cost.ms.high:.2f}"]
        cells += [f"{cost.relative.median:.2f}", f"{cost.relative.median / cost.tokens:.2f}"]
        if energies:
            cells.append(energies[str(cost.tokens)].words())
        for costs in report.peers.values():
            theirs, ratio = costs[index].cost, costs[index].ratio
            cells += [f"{theirs.ms.median:.2f}", f"{theirs.relative.median:.2f}", quartiles(ratio)]
        table.add_row(*cells)
    console = wide_console()
    console.print(
        f"{report.model}, {report.isa}, {report.threads} threads, {report.resident} tokens resident"
        + (f" in {report.kv}" if report.kv else "")
    )
    console.print(table)
    console.print(
        f"{size(report.weight_bytes)} of weights per pass: {report.bandwidth_fraction:.0%} of"
        f" {report.bandwidth_gb_s:.1f} GB/s"
    )
    if report.gpu:
        console.print(_kernel_table(report))
    if report.energies:
        console.print(report.energies.heading(), soft_wrap=True)
    for name, version in report.versions.items():
        console.print(f"{name}: {version}")


def _kernel_table(report: KernelReport) -> Table:
    from edgedec.cli.bench.tables import new_table, percent

    totals: dict[int, float] = {}
    for one in report.gpu:
        totals[one.tokens] = totals.get(one.tokens, 0.0) + one.ms.median
    table = new_table(["", "tokens", "steps", "ms", "quartiles", "of the pass", "GB/s"])
    for one in report.gpu:
        share = one.ms.median / totals[one.tokens] if totals[one.tokens] else None
        speed = f"{one.gb_per_s:.1f}" if one.streamed else "-"
        cells = [one.kernel, str(one.tokens), str(one.steps), f"{one.ms.median:.2f}"]
        table.add_row(*cells, f"{one.ms.low:.2f} - {one.ms.high:.2f}", percent(share), speed)
    return table
