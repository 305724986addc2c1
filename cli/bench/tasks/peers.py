"""Compare peaks of runtimes that run the same weights."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.bench.harness.memory_levels import FULL
from edgedec.bench.harness.runtimes import EDGEDEC, OTHERS, OwnRun
from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.energy_tables import show_energies
from edgedec.cli.bench.tasks import PEER_TOKENS
from edgedec.core.errors import MemoryBudgetError
from edgedec.core.units import size
from edgedec.sampling import DrawParams

if TYPE_CHECKING:
    from edgedec.bench.harness.energy import EnergyProbe
    from edgedec.bench.studies.energies import Energies
    from edgedec.bench.studies.peak_memory import MemorySide, PeakMemory
    from edgedec.cli.bench.memory import MemoryOptions
    from edgedec.core.manifest import Manifest

_LLAMA, _AS_MAPPED = "llama.cpp", "llama.cpp as mapped"


def run(ctx: click.Context, options: MemoryOptions) -> None:
    from edgedec.bench.harness.energy import EnergyProbe
    from edgedec.bench.harness.texts import PROMPTS
    from edgedec.bench.studies.peak_memory import measure_memory
    from edgedec.core.manifest import Manifest

    names = options.peer_names(OTHERS, "cannot take part")
    bundle = inputs.find_bundle(ctx, options.model)
    manifest, count = Manifest.load(bundle), options.max_tokens or PEER_TOKENS
    context = max(options.prompt_tokens + count, options.context or 0)
    inputs.check_context(manifest, context)
    (prompt,) = inputs.prompt_ids(bundle, manifest, PROMPTS[:1], options.prompt_tokens)
    asked = _own_sides(ctx, options, bundle, context) + _peers(ctx, options, manifest, names, context)
    probe = EnergyProbe()
    with inputs.steps() as progress:
        found = measure_memory(asked, prompt, count, progress, probe)
    energies = _energies(found, manifest, options, probe)
    if options.as_json:
        facts = {"model": manifest.name, "threads": options.chosen_threads, "context": context}
        facts |= {"prompt_tokens": options.prompt_tokens, "max_tokens": count}
        sides = {name: {**one.as_json(), "peak_by_edgedec": _by_own(found, name)}
                 for name, one in found.items()}  # fmt: skip
        screen.show_json({**facts, "sides": sides, "energy": energies.as_json()})
    else:
        title = f"{manifest.name}, {options.chosen_threads} threads"
        _show(found, f"{title}: {options.prompt_tokens} + {count} tokens, a context of {context}")
        show_energies(energies)
    for level in options.levels:
        name = f"{EDGEDEC}+auto at {level.name}"
        if level.kind == "size" and found[name].peak > level.amount:
            raise MemoryBudgetError(f"{name} took {size(found[name].peak)}")


def _energies(
    found: dict[str, PeakMemory], manifest: Manifest, options: MemoryOptions, probe: EnergyProbe
) -> Energies:
    from edgedec.bench.studies.energies import energies_of_replies, traffics

    known = traffics(found, manifest, options.gguf_file, options.kv)
    if _AS_MAPPED in found and _LLAMA in known:
        known[_AS_MAPPED] = known[_LLAMA]
    replies = {name: [one.reply] for name, one in found.items()}
    return energies_of_replies(replies, known, manifest.spec.window, probe.reason)


def _own_sides(ctx: click.Context, options: MemoryOptions, bundle: Path, context: int) -> list[MemorySide]:
    from edgedec.bench.studies.peak_memory import MemorySide

    run = OwnRun(options.chosen_threads, inputs.home(ctx), context, options.kv, level=FULL)
    ways = [(EDGEDEC, "off", FULL), (f"{EDGEDEC}+auto", "auto", FULL)]
    ways += [(f"{EDGEDEC}+auto at {level.name}", "auto", level) for level in options.levels]
    return [
        MemorySide(
            replace(run, draft=draft, level=level).side(bundle, name),
            "reply",
            {"stop": [], "mode": draft, "sampling": asdict(DrawParams())},
        )
        for name, draft, level in ways
    ]


def _peers(
    ctx: click.Context, options: MemoryOptions, manifest: Manifest, names: list[str], context: int
) -> list[MemorySide]:
    """Peers; llama.cpp also without its faster copies of weights."""
    from edgedec.bench.studies.peak_memory import MemorySide

    asked = []
    for side in inputs.peer_sides(ctx, options, manifest, names, context=context):
        asked.append(MemorySide(side))
        if side.name == _LLAMA:
            mapped = replace(side, name=_AS_MAPPED, settings={**side.settings, "repack": False})
            asked.append(MemorySide(mapped))
    return asked


def _by_own(found: dict[str, PeakMemory], name: str) -> float:
    return round(found[name].peak / found[EDGEDEC].peak, 4)


def _show(found: dict[str, PeakMemory], title: str) -> None:
    from edgedec.cli.bench.tables import megabytes, new_table, number, wide_console

    table = new_table(("", "peak", f"x {EDGEDEC}", "mapped", "private", "loading", "charged", "tok/s"))
    for name, one in found.items():
        charged = "-" if one.group is None else megabytes(one.group)
        sizes = [megabytes(count) for count in (one.mapped, one.private, one.loaded)]
        ratio = number(_by_own(found, name), 2)
        table.add_row(name, megabytes(one.peak), ratio, *sizes, charged, number(one.tokens_per_s, 1))
    console = wide_console()
    console.print(title, soft_wrap=True)
    console.print(table)
    for name, one in found.items():
        console.print(f"{name}: {one.version}", soft_wrap=True)
