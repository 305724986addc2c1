"""``edgedec bench speed``: plain decoding, prefill, load and memory beside other runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.bench.harness.runtimes import NATIVE, PLAIN_PEERS
from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.options import PeerOptions, count_option, input_option, last_options, peer_option
from edgedec.cli.command import new_command
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bench.harness.energy import Energies
    from edgedec.bench.studies.speed import SideSpeed, SpeedReport
    from edgedec.bundle.manifest import Manifest
    from edgedec.memory import KvType
    from edgedec.metrics.roofline import Roofline


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedOptions(PeerOptions):
    file: Path | None
    max_tokens: int
    repeat: int
    kv: KvType


@new_command(
    "speed",
    "edgedec bench speed -m qwen2.5-coder-1.5b --peer llama.cpp",
    "edgedec bench speed -m model.gguf --peer llama.cpp=~/llama/bin/python --threads 4",
    "edgedec bench speed -m model.gguf --peer transformers,openvino-genai",
    "edgedec bench speed --peer native --input prompts.jsonl --max-tokens 128 --json",
    "edgedec bench speed -m model.gguf --peer openvino-genai --kv int8 --input long.jsonl",
)
@opt.model_option
@input_option("Prompts, one per line; .jsonl: a string or an object with prompt, question, text or turns.")
@count_option("--max-tokens", "Tokens decoded after every prompt; end tokens do not end it.", 64, least=2)
@count_option("--repeat", "Rounds over all prompts, and loads of every side.", 3)
@peer_option(PLAIN_PEERS)
@opt.kv_option_of("fp16", "int8")
@last_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Measure plain greedy decoding and prefill, alone or beside other runtimes in the same run.

    All sides get the same weights, token ids and threads, run in processes of their own and take turns on
    every prompt. Ratios are medians over neighbouring measurements, with quartiles. Load time includes a
    runtime's imports and is measured in fresh processes.

    Energy is that of decoding, all sides by one meter of this machine, or an estimate from their bytes where
    it has none. "of roofline" compares the bytes read for a token with the memory bandwidth, measured first.

    "native" is the engine without Python, over the same bundle; the other peers read the GGUF file. --kv is
    for EdgeDec in Python and without it; the others keep keys and values as they do by themselves.

    The model builder of onnxruntime-genai quantises the weights again, once. It needs memory for them as
    float32; its version 0.18 cannot convert gemma3. The result is kept in EDGEDEC_HOME/peers.
    """
    from edgedec.bench.harness.energy import EnergyProbe
    from edgedec.bench.harness.runtimes import OwnRun
    from edgedec.bench.harness.texts import PROMPTS, read_prompts
    from edgedec.bench.studies.speed import SpeedStudy, measure_speed

    options = SpeedOptions(**given)
    names = options.peer_names(PLAIN_PEERS, "cannot take part")
    bundle, manifest = inputs.find_model(ctx, options.model)
    threads = options.chosen_threads
    texts = read_prompts(options.file) if options.file else PROMPTS
    ids = inputs.prompt_ids(bundle, manifest, texts, None)
    context = max(map(len, ids)) + options.max_tokens
    inputs.check_context(manifest, context)
    own = OwnRun(threads, inputs.home(ctx), context, options.kv)
    sides = [own.side(bundle), *(own.native_side(bundle) for name in names if name == NATIVE)]
    others = [name for name in names if name != NATIVE]
    sides += inputs.peer_sides(ctx, options, manifest, others, context=context)
    rate = inputs.bandwidth(ctx, threads)
    study = SpeedStudy(tuple(ids), options.max_tokens, options.repeat, energy=EnergyProbe())
    with inputs.steps() as progress:
        report = measure_speed(sides, study, progress)
    costs = _costs(report, manifest, options, rate)
    if options.as_json:
        facts = {"model": manifest.name, "threads": threads, "kv": options.kv, **report.as_json()}
        screen.show_json({**facts, **costs.as_json()})
    else:
        _show(report, costs, f"{manifest.name}, {threads} threads, KV cache in {options.kv}")


@dataclass(frozen=True, slots=True)
class _Costs:
    """Energy and the distance from the roofline, by side."""

    energy: Energies
    rooflines: dict[str, Roofline]

    def as_json(self) -> dict[str, Any]:
        rooflines = {name: one.as_json() for name, one in self.rooflines.items()}
        return {"energy": self.energy.as_json(), "roof": rooflines}

    def lines(self) -> list[str]:
        """Return what the columns mean."""
        rates = {f"{one.bandwidth_gb_per_s:.1f} GB/s" for one in self.rooflines.values()}
        about = f"of roofline: bytes read a token beside {', '.join(rates)} from memory"
        return [about, self.energy.heading()]

    def cells(self, side: str) -> list[str]:
        """Return the share of the roofline and the energy of a side."""
        roofline, energy = self.rooflines.get(side), self.energy.by_side.get(side)
        return [f"{roofline.share:.0%}" if roofline else "-", energy.words() if energy else "-"]


def _costs(report: SpeedReport, manifest: Manifest, options: SpeedOptions, rate: float) -> _Costs:
    from edgedec.bench.harness.energy import traffics
    from edgedec.bench.studies.speed import energies_of_speed, rooflines_of_speed

    assert report.study.energy is not None
    known, window = traffics(report.sides, manifest, options.gguf_file, options.kv), manifest.spec.window
    energy = energies_of_speed(report, known, window, report.study.energy)
    return _Costs(energy, rooflines_of_speed(report, known, window, rate))


def _show(report: SpeedReport, costs: _Costs, title: str) -> None:
    from edgedec.bench.harness.pairing import spread
    from edgedec.cli.bench.tables import new_table, quartiles, wide_console

    table = new_table(("", "decode tok/s", "of roofline", "mJ/token", "prefill tok/s", "load s", "peak RSS"))
    for name, side in report.sides.items():
        rates = quartiles(spread(side.decode), 1), quartiles(spread(side.prefill), 0)
        cells = [rates[0], *costs.cells(name), rates[1], f"{spread(side.load_s).median:.2f}"]
        table.add_row(name, *cells, size(side.peak_rss_bytes))
    for name, ratios in report.ratios().items():
        rates = quartiles(ratios.decode), quartiles(ratios.prefill)
        cells = [rates[0], "", "", rates[1], f"{ratios.load.median:.2f}", f"{ratios.peak_rss:.2f}"]
        table.add_row(f"ratio to {name}", *cells)
    console = wide_console()
    lengths = [len(prompt) for prompt in report.study.prompts]
    console.print(
        f"{title}, {len(lengths)} prompts of {min(lengths)} to {max(lengths)} tokens,"
        f" {report.study.max_tokens} tokens each, {report.study.repeat} rounds; median (quartiles)",
        soft_wrap=True,
    )
    console.print(table)
    for name, side in report.sides.items():
        console.print(f"{name}: {side.version}, {side.isa}", soft_wrap=True)
        if side.planned_bytes:
            console.print(_memory_parts(name, side), soft_wrap=True)
    for line in costs.lines():
        console.print(line, soft_wrap=True)
    console.print("peak RSS: VmHWM of each side's process, interpreter and mapped files included")


def _memory_parts(name: str, side: SideSpeed) -> str:
    from edgedec.cli.bench.tables import megabytes

    planned = " + ".join(
        f"{part.replace('_', ' ')} {megabytes(count)}" for part, count in side.planned_bytes.items()
    )
    above = side.surplus_bytes
    rest = f"+ {megabytes(above)}" if above >= 0 else f"- {megabytes(-above)} (not all were touched)"
    return f"{name}: peak {megabytes(side.peak_rss_bytes)} = {planned} {rest}"
