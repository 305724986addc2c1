"""``edgedec bench memory --peer``: memory beside other runtimes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.bench.sides import PEERS
from edgedec.cli import bench_common as common
from edgedec.cli import screen
from edgedec.core.errors import MemoryBudgetError
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bench.levels import Level
    from edgedec.bench.memory_peers import Asked, Held
    from edgedec.cli.bench_options import Shared
    from edgedec.core.manifest import Manifest

BASE = "edgedec"
LLAMA, AS_MAPPED = "llama.cpp", "llama.cpp as mapped"


def compare(
    ctx: click.Context,
    shared: Shared,
    levels: Sequence[Level],
    *,
    prompt_tokens: int,
    max_tokens: int,
    context: int | None,
) -> None:
    """Measure and print. Raises MemoryBudgetError when a budget was too small, or not kept."""
    from edgedec.bench.memory_peers import measure_memory
    from edgedec.core.manifest import Manifest

    names = shared.names(PEERS, "cannot be run")
    bundle = common.find_bundle(ctx, shared.model)
    manifest = Manifest.load(bundle)
    room = max(prompt_tokens + max_tokens, context or 0)
    common.check_context(manifest, room)
    (prompt,) = common.prompt_ids(bundle, manifest, None, 1, prompt_tokens)
    asked = _ours(ctx, shared, bundle, levels, room) + _theirs(ctx, shared, manifest, names, room)
    with common.steps() as progress:
        found = measure_memory(asked, prompt, max_tokens, progress=progress)
    if shared.as_json:
        counts = {"prompt_tokens": prompt_tokens, "max_tokens": max_tokens, "context": room}
        sides = {name: {**held.as_json(), "peak_by_edgedec": _by_base(found, name)}
                 for name, held in found.items()}  # fmt: skip
        screen.show_json({"model": manifest.name, "threads": shared.chosen_threads, **counts, "sides": sides})
    else:
        title = f"{manifest.name}, {shared.chosen_threads} threads"
        _show(found, f"{title}: {prompt_tokens} + {max_tokens} tokens, a context of {room}")
    for level in levels:
        name = f"{BASE}+auto at {level.name}"
        if level.kind == "size" and found[name].peak > level.amount:
            raise MemoryBudgetError(f"{name} took {size(found[name].peak)}")


def _ours(
    ctx: click.Context, shared: Shared, bundle: Path, levels: Sequence[Level], context: int
) -> list[Asked]:
    from edgedec.bench.levels import FULL
    from edgedec.bench.memory_peers import Asked
    from edgedec.bench.sides import ours_within
    from edgedec.cli.seams import seams
    from edgedec.sampling import SamplingParams

    wanted = [(BASE, "off", FULL), (f"{BASE}+auto", "auto", FULL)]
    wanted += [(f"{BASE}+auto at {level.name}", "auto", level) for level in levels]
    asked = []
    for name, draft, level in wanted:
        side = ours_within(
            bundle, name=name, level=level, draft=draft, drawing=0, threads=shared.chosen_threads,
            context=context, costs=seams(ctx).store().home / "costs", draft_models={}, isa=shared.isa,
            kv=shared.kv,
        )  # fmt: skip
        request: dict[str, Any] = {"stop": [], "mode": draft, "sampling": asdict(SamplingParams())}
        asked.append(Asked(side, "reply", request))
    return asked


def _theirs(
    ctx: click.Context, shared: Shared, manifest: Manifest, names: Sequence[str], context: int
) -> list[Asked]:
    """The peers; llama.cpp also without the copies of weights that make it quicker."""
    from dataclasses import replace

    from edgedec.bench.memory_peers import Asked

    asked = []
    for side in common.all_peers(ctx, shared, manifest, names, context=context):
        asked.append(Asked(side))
        if side.name == LLAMA:
            asked.append(Asked(replace(side, name=AS_MAPPED, settings={**side.settings, "repack": False})))
    return asked


def _by_base(found: dict[str, Held], name: str) -> float:
    return round(found[name].peak / found[BASE].peak, 4)


def _show(found: dict[str, Held], title: str) -> None:
    from edgedec.cli.bench_table import megabytes, new_table, number, wide_console

    table = new_table(("", "peak", f"x {BASE}", "mapped", "private", "loading", "charged", "tok/s"))
    for name, held in found.items():
        charged = "-" if held.group is None else megabytes(held.group)
        sizes = [megabytes(count) for count in (held.mapped, held.private, held.loaded)]
        ratio = number(_by_base(found, name), 2)
        table.add_row(name, megabytes(held.peak), ratio, *sizes, charged, number(held.tokens_per_s, 1))
    console = wide_console()
    console.print(title, soft_wrap=True)
    console.print(table)
    for name, held in found.items():
        console.print(f"{name}: {held.version}", soft_wrap=True)
