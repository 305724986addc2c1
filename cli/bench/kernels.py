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
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.table import Table

    from edgedec.bench.harness.energy import Energies
    from edgedec.bench.harness.worker import Side
    from edgedec.bench.studies.gpu_kernels import KernelTime
    from edgedec.bench.studies.kernels import KernelReport, PassCost, PassStudy, PeerCost
    from edgedec.bundle.manifest import Manifest
    from edgedec.core.cache_config import Device
    from edgedec.core.progress import Progress
    from edgedec.memory import KvType

TOKENS = "1,2,4,8,16,32,128"
RESIDENT = "128"
_LEAST_CONTEXT_TOKENS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelOptions(PeerOptions):
    tokens: str
    resident: str
    repeat: int
    kv: KvType
    device: Device

    @property
    def counts(self) -> list[int]:
        """Tokens of each pass. Raises UsageError."""
        return _numbers("--tokens", self.tokens, 1, TOKENS)

    @property
    def behind(self) -> list[int]:
        """Tokens in the cache before passes, each number once. Raises UsageError."""
        return sorted(set(_numbers("--resident", self.resident, 0, "0,4000,12000")))


def _numbers(option: str, given: str, least: int, example: str) -> list[int]:
    try:
        found = [int(part) for part in given.split(",")]
    except ValueError:
        found = [least - 1]
    if min(found) < least:
        range_ = "numbers above 0" if least else "numbers from 0 on"
        raise UsageError(f"{option} {given} is not a list of {range_}", hint=f"for example {example}")
    return found


@new_command(
    "kernels",
    "edgedec bench kernels -m qwen2.5-coder-1.5b",
    "EDGEDEC_ISA=avx2 edgedec bench kernels --tokens 1,2,3,4,5,6,7,8 --json",
    "edgedec bench kernels --resident 0,4000,12000 --tokens 1,8,16 --kv int8",
    "edgedec bench kernels -m ./my-npu-model --device npu --tokens 1,8,32 --repeat 5",
    "edgedec bench kernels --device gpu --tokens 1,16",
    "edgedec bench kernels -m model.gguf --peer llama.cpp=~/llama/bin/python",
)
@opt.model_option
@click.option("--tokens", default=TOKENS, show_default=True, metavar="LIST", help="Tokens per pass.")
@click.option(
    "--resident",
    default=RESIDENT,
    show_default=True,
    metavar="LIST",
    help="Tokens in the KV cache before a pass.",
)
@count_option("--repeat", "Rounds; every round times each number of tokens once.", 15)
@peer_option(WITH_PASSES)
@opt.kv_option_of("fp16", "int8")
@opt.device_option
@last_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Time whole passes of a model over 1, 2, 4, ... tokens, with logits of all of them.

    A pass over k tokens verifies k - 1 drafted ones. Its cost relative to one token tells how much drafts can
    gain. With several numbers of resident tokens, each pass is relative to the one over one token behind as
    many. On a GPU a second table has the time of each kernel by the device's own clock, and the weights that
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


@dataclass(frozen=True, slots=True)
class _Behind:
    """Measurements behind one number of resident tokens."""

    passes: tuple[PassCost, ...]
    peers: Mapping[str, tuple[PeerCost, ...]]
    energies: Energies
    gpu: tuple[KernelTime, ...]
    opened: Mapping[str, Mapping[str, Any]]


def _measure(ctx: click.Context, options: KernelOptions, counts: list[int]) -> KernelReport:
    from edgedec.backends.open import runtime_of
    from edgedec.bench.harness.energy import Energies, EnergyProbe
    from edgedec.bench.harness.runtimes import OwnRun
    from edgedec.bench.studies import kernels
    from edgedec.bench.studies.weights import pass_weights
    from edgedec.telemetry.bandwidth import measure

    given, threads, behind = services(ctx), options.chosen_threads, options.behind
    names = options.peer_names(WITH_PASSES, "cannot take tokens back after a pass")
    bundle, manifest = inputs.find_model(ctx, options.model)
    context = max(_LEAST_CONTEXT_TOKENS, behind[-1] + max(counts))
    inputs.check_context(manifest, context)
    sides = [OwnRun(threads, inputs.home(ctx), context, options.kv, options.device).side(bundle)]
    sides += inputs.peer_sides(ctx, options, manifest, names, context=context, all_rows=True)
    before = measure(given.bandwidth, [threads])
    probe, several, vocab = EnergyProbe(), len(behind) > 1, manifest.spec.vocab_size
    studies = [
        kernels.PassStudy(counts, one, options.repeat, vocab, energy=probe, named=several) for one in behind
    ]
    with inputs.steps() as progress:
        found = [
            _measure_behind(sides, names, study, (bundle, manifest, options), progress) for study in studies
        ]
    # Read twice; the better one counts, because disturbances only make a reading smaller.
    readings = before + measure(given.bandwidth, [threads])
    return kernels.KernelReport(
        manifest.name, runtime_of(manifest, options.device), threads, behind if several else behind[0],
        pass_weights(bundle).streamed, max(reading.gb_per_s for reading in readings),
        tuple(cost for one in found for cost in one.passes),
        {name: tuple(cost for one in found for cost in one.peers[name]) for name in names},
        {name: found[0].opened[name]["version"] for name in names},
        found[0].opened[EDGEDEC]["kv"],
        Energies({name: one for part in found for name, one in part.energies.by_side.items()}, probe.reason),
        tuple(one for part in found for one in part.gpu),
    )  # fmt: skip


def _measure_behind(
    sides: Sequence[Side],
    names: Sequence[str],
    study: PassStudy,
    subject: tuple[Path, Manifest, KernelOptions],
    progress: Progress,
) -> _Behind:
    from edgedec.bench.studies import kernels
    from edgedec.bench.studies.gpu_kernels import GpuStudy, measure_kernels
    from edgedec.bundle.manifest import WEIGHTS
    from edgedec.metrics.measures import traffic_of

    bundle, manifest, options = subject
    journal = kernels.measure_passes(sides, study, progress)
    context = max(_LEAST_CONTEXT_TOKENS, study.resident + study.sizes[-1])
    timed = GpuStudy(study.counts, study.resident, study.repeat, context, study.named)
    ours = kernels.times_of(journal, EDGEDEC)
    traffic = traffic_of(manifest.spec, manifest.files[WEIGHTS].bytes, options.kv)
    reason = study.energy.reason if study.energy else ""
    return _Behind(
        kernels.pass_costs(ours, study.behind),
        {name: kernels.peer_costs(kernels.times_of(journal, name), ours, study.behind) for name in names},
        kernels.energies_of_passes(journal, study, traffic, manifest.spec.window, reason),
        measure_kernels(bundle, timed, progress) if options.device == "gpu" else (),
        journal.opened,
    )


def _show(report: KernelReport) -> None:
    from edgedec.cli.bench.tables import new_table, quartiles, wide_console

    several = not isinstance(report.resident, int)
    headings = ["resident"] * several + ["tokens", "ms", "quartiles", "relative", "per token"]
    energies = report.energies.by_side if report.energies else {}
    if energies:
        headings.append("mJ/token")
    for name in report.peers:
        headings += [f"{name} ms", "relative", "its time by ours"]
    table = new_table(headings)
    for index, cost in enumerate(report.passes):
        cells = [str(cost.resident)] * several + [str(cost.tokens), f"{cost.ms.median:.2f}"]
        cells.append(f"{cost.ms.low:.2f} - {cost.ms.high:.2f}")
        cells += [f"{cost.relative.median:.2f}", f"{cost.relative.median / cost.tokens:.2f}"]
        if energies:
            cells.append(energies[cost.name].words())
        for costs in report.peers.values():
            theirs, ratio = costs[index].cost, costs[index].ratio
            cells += [f"{theirs.ms.median:.2f}", f"{theirs.relative.median:.2f}", quartiles(ratio)]
        table.add_row(*cells)
    console = wide_console()
    resident = "" if several else f", {report.resident} tokens resident"
    console.print(
        f"{report.model}, {report.isa}, {report.threads} threads{resident}"
        + (f"{', resident tokens' * several} in {report.kv}" if report.kv else "")
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

    several = not isinstance(report.resident, int)
    totals: dict[tuple[int, int | None], float] = {}
    for one in report.gpu:
        key = one.tokens, one.resident
        totals[key] = totals.get(key, 0.0) + one.ms.median
    headings = ["", *["resident"] * several, "tokens", "steps", "ms", "quartiles", "of the pass", "GB/s"]
    table = new_table(headings)
    for one in report.gpu:
        whole = totals[one.tokens, one.resident]
        share = one.ms.median / whole if whole else None
        speed = f"{one.gb_per_s:.1f}" if one.streamed else "-"
        cells = [
            one.kernel,
            *[str(one.resident)] * several,
            str(one.tokens),
            str(one.steps),
            f"{one.ms.median:.2f}",
        ]
        table.add_row(*cells, f"{one.ms.low:.2f} - {one.ms.high:.2f}", percent(share), speed)
    return table
