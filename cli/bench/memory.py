"""``edgedec bench memory``: peak memory within budgets, and beside other runtimes."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.bench.harness.memory_levels import FULL, Level
from edgedec.bench.harness.pairing import by_field
from edgedec.bench.harness.runtimes import EDGEDEC, NATIVE, PLAIN_PEERS, OwnRun
from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.options import PeerOptions, last_options, levels_option, peer_option
from edgedec.cli.bench.tables import show_energies
from edgedec.cli.command import new_command
from edgedec.core.errors import MemoryBudgetError
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import size
from edgedec.sampling import DrawParams

if TYPE_CHECKING:
    from edgedec.bench.harness.energy import Energies, EnergyProbe
    from edgedec.bench.harness.journal import SideAnswer
    from edgedec.bench.harness.study import StudySide
    from edgedec.bench.studies.peak_memory import PeakMemory
    from edgedec.bundle.manifest import Manifest

PROMPT_TOKENS, REPLY_TOKENS = 512, 64
_LLAMA, _AS_MAPPED = "llama.cpp", "llama.cpp as mapped"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions(PeerOptions):
    levels: tuple[Level, ...]


@new_command(
    "memory",
    "edgedec bench memory -m qwen2.5-coder-1.5b --memory -65% --memory least",
    "edgedec bench memory -m model.gguf --peer llama.cpp,onnxruntime-genai --json",
    "edgedec bench memory -m lfm2-8b-a1b --memory 3GB --peer native",
)
@opt.model_option
@levels_option
@peer_option(PLAIN_PEERS)
@last_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Run each side alone in a process of its own, and compare peaks of memory.

    All sides load the same weights, read the same prompt of 512 tokens and continue it by 64, in a context of
    that size. "peak" is VmHWM, pages of mapped files included; "mapped" and "private" are its parts after the
    reply. "charged" is the peak of a cgroup of that process, where one can be made: private memory and files
    of the model, also where they are read and not mapped, without libraries. "llama.cpp as mapped" runs
    without its faster copies of weights. --memory adds sides within budgets; the exit status is 10 if one
    went over.

    "native" is the engine without Python, over the same bundle, without drafts; budgets that are sizes hold
    for it too. It is started by a process of Python, which "charged" counts.
    """
    from edgedec.bench.harness.energy import EnergyProbe
    from edgedec.bench.harness.texts import PROMPTS
    from edgedec.bench.studies.peak_memory import measure_memory

    options = MemoryOptions(**given)
    names = options.peer_names(PLAIN_PEERS, "cannot take part")
    bundle, manifest = inputs.find_model(ctx, options.model)
    context = min(PROMPT_TOKENS + REPLY_TOKENS, manifest.spec.context_length)
    (prompt,) = inputs.prompt_ids(bundle, manifest, PROMPTS[:1], context - REPLY_TOKENS)
    asked = _own_sides(ctx, options, bundle, context)
    asked += _native_sides(ctx, options, bundle, context) if NATIVE in names else []
    asked += _peers(ctx, options, manifest, names, context)
    probe = EnergyProbe()
    with inputs.steps() as progress:
        found, replies = measure_memory(asked, prompt, REPLY_TOKENS, progress, probe)
    energies = _energies(replies, manifest, options, probe)
    if options.as_json:
        facts = {"model": manifest.name, "threads": options.chosen_threads, "context": context}
        facts |= {"prompt_tokens": len(prompt), "max_tokens": REPLY_TOKENS}
        sides = {name: {**by_field(one), "peak_by_edgedec": _by_own(found, name)}
                 for name, one in found.items()}  # fmt: skip
        screen.show_json({**facts, "sides": sides, "energy": energies.as_json()})
    else:
        title = f"{manifest.name}, {options.chosen_threads} threads"
        _show(found, f"{title}: {len(prompt)} + {REPLY_TOKENS} tokens, a context of {context}")
        show_energies(energies)
    for level in options.levels:
        for name, one in found.items():
            over = level.kind == "size" and name.endswith(f" at {level.name}")
            if over and one.peak_rss_bytes > level.amount:
                raise MemoryBudgetError(f"{name} took {size(one.peak_rss_bytes)}")


def _energies(
    replies: dict[str, SideAnswer], manifest: Manifest, options: MemoryOptions, probe: EnergyProbe
) -> Energies:
    from edgedec.bench.harness.energy import energies_of_replies, traffics

    known = traffics(replies, manifest, options.gguf_file, "fp16")
    each = {name: [one] for name, one in replies.items()}
    return energies_of_replies(each, known, manifest.spec.window, probe.reason)


def _own_sides(ctx: click.Context, options: MemoryOptions, bundle: Path, context: int) -> list[StudySide]:
    from edgedec.bench.harness.study import StudySide

    run = OwnRun(options.chosen_threads, inputs.home(ctx), context, level=FULL)
    ways = [(EDGEDEC, "off", FULL), (f"{EDGEDEC}+auto", "auto", FULL)]
    ways += [(f"{EDGEDEC}+auto at {level.name}", "auto", level) for level in options.levels]
    return [
        StudySide(
            name,
            replace(run, draft=draft, level=level).side(bundle, name),
            draft,
            {"stop": [], "sampling": asdict(DrawParams())},
        )
        for name, draft, level in ways
    ]


def _native_sides(ctx: click.Context, options: MemoryOptions, bundle: Path, context: int) -> list[StudySide]:
    from edgedec.bench.harness.study import StudySide

    run = OwnRun(options.chosen_threads, inputs.home(ctx), context)
    sizes = [level for level in options.levels if level.kind == "size"]
    sides = [run.native_side(bundle)]
    sides += [replace(run, level=one).native_side(bundle, f"{NATIVE} at {one.name}") for one in sizes]
    return [StudySide.of(side) for side in sides]


def _peers(
    ctx: click.Context, options: MemoryOptions, manifest: Manifest, names: list[str], context: int
) -> list[StudySide]:
    """Peers; llama.cpp also without its faster copies of weights."""
    from edgedec.bench.harness.study import StudySide

    asked = []
    others = [name for name in names if name != NATIVE]
    for side in inputs.peer_sides(ctx, options, manifest, others, context=context):
        asked.append(StudySide.of(side))
        if side.name == _LLAMA:
            mapped = replace(side, name=_AS_MAPPED, settings={**side.settings, "repack": False})
            asked.append(StudySide.of(mapped))
    return asked


def _by_own(found: dict[str, PeakMemory], name: str) -> float:
    return round(found[name].peak_rss_bytes / found[EDGEDEC].peak_rss_bytes, 4)


def _show(found: dict[str, PeakMemory], title: str) -> None:
    from edgedec.cli.bench.tables import megabytes, new_table, number, wide_console

    table = new_table(("", "peak", f"x {EDGEDEC}", "mapped", "private", "loading", "charged", "tok/s"))
    for name, one in found.items():
        charged = "-" if one.group_peak_bytes is None else megabytes(one.group_peak_bytes)
        parts = (one.mapped_bytes, one.private_bytes, one.loaded_peak_rss_bytes)
        sizes = [megabytes(count) for count in parts]
        ratio = number(_by_own(found, name), 2)
        speed = number(one.decode_tokens_per_s, 1)
        table.add_row(name, megabytes(one.peak_rss_bytes), ratio, *sizes, charged, speed)
    console = wide_console()
    console.print(title, soft_wrap=True)
    console.print(table)
    for name, one in found.items():
        console.print(f"{name}: {one.version}", soft_wrap=True)
