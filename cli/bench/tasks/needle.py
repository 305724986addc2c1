"""Count facts that are found in a long text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.tasks import CONTEXT_TOKENS
from edgedec.cli.opening import open_model
from edgedec.core.when_full import LOSSY

if TYPE_CHECKING:
    from edgedec.bench.studies.needle import NeedleResult, NeedleTrial
    from edgedec.cli.bench.accuracy import AccuracyOptions


def run(ctx: click.Context, options: AccuracyOptions) -> None:
    """Ask for the facts, and show how many each side finds."""
    from edgedec.assemble.config import RunConfig
    from edgedec.bench.harness.texts import read_text
    from edgedec.bench.studies.needle import (
        FULL,
        REPLY_TOKENS,
        energies_of_needles,
        find_needles,
        prompt_of,
        trials_of,
    )
    from edgedec.cli.bench.energy_tables import show_energies
    from edgedec.core.manifest import Manifest
    from edgedec.text.codec import Codec

    context = options.context or CONTEXT_TOKENS
    bundle = inputs.find_bundle(ctx, options.model)
    manifest = Manifest.load(bundle)
    codec = Codec(*inputs.load_text_parts(bundle, manifest))
    texts = [read_text(path) for path in options.files]
    trials = trials_of(texts, codec.tokenizer, options.text_tokens, options.depths, options.repeat)
    longest = max(len(prompt_of(trial, codec)[0]) for trial in trials) + REPLY_TOKENS
    inputs.check_context(manifest, longest)
    exact = RunConfig(threads=options.threads, context=longest, kv=options.kv, draft="off")
    sides: dict[str, NeedleResult] = {}
    with inputs.steps() as progress:
        sides[FULL] = find_needles(open_model(ctx, str(bundle), exact), FULL, trials, progress)
        for way in dict.fromkeys(options.policies or LOSSY):
            small = replace(exact, context=context, when_full=way)
            sides[way] = find_needles(open_model(ctx, str(bundle), small), way, trials, progress)
    energies = energies_of_needles(sides)
    if options.as_json:
        facts = {"model": manifest.name, "kv": options.kv, "longest": longest}
        facts |= {"tokens": options.text_tokens}
        shown = {way: found.as_json(trials) for way, found in sides.items()}
        screen.show_json({**facts, "context": context, "sides": shown, "energy": energies.as_json()})
    else:
        title = f"{manifest.name}: facts found by their depth; a KV cache of {context} tokens, or full"
        _show(sides, trials, title)
        show_energies(energies, FULL)


def _show(sides: Mapping[str, NeedleResult], trials: Sequence[NeedleTrial], title: str) -> None:
    from edgedec.cli.bench.tables import new_table, wide_console

    depths = sorted({trial.depth for trial in trials})
    table = new_table(("", "found", *(f"at {depth:.0%}" for depth in depths), "evicted", "time"))
    for way, found in sides.items():
        counts = [str(found.at(depth, trials)) for depth in depths]
        evicted = f"{found.evicted} tokens" if found.evicted else "-"
        table.add_row(way, f"{sum(found.right)} of {len(trials)}", *counts, evicted, f"{found.seconds:.1f} s")
    console = wide_console()
    console.print(title)
    console.print(table)
