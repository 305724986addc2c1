"""Count facts that are found in a long text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.core.cache_config import LOSSY

if TYPE_CHECKING:
    from edgedec.bench.studies.needle import NeedleResult, NeedleTrial
    from edgedec.cli.bench.accuracy import AccuracyOptions

_FACTS = 20


def run(ctx: click.Context, options: AccuracyOptions) -> None:
    """Ask for the facts, and show how many each side finds."""
    from dataclasses import replace

    from edgedec.bench.harness.energy import EnergyProbe, energies_of_replies, traffics
    from edgedec.bench.harness.runtimes import EDGEDEC, OwnRun
    from edgedec.bench.harness.study import StudySide
    from edgedec.bench.harness.texts import read_text
    from edgedec.bench.studies.needle import FULL, REPLY_TOKENS, find_needles, prompt_of, trials_of
    from edgedec.bundle.manifest import Manifest
    from edgedec.cli.bench.tables import show_energies
    from edgedec.text.codec import Codec

    bundle = inputs.find_bundle(ctx, options.model)
    manifest = Manifest.load(bundle)
    codec = Codec(*inputs.load_text_parts(bundle, manifest))
    texts = [read_text(path) for path in options.files]
    trials = trials_of(texts, codec.tokenizer, options.text_tokens, options.limit or _FACTS)
    longest = max(len(prompt_of(trial, codec)[0]) for trial in trials) + REPLY_TOKENS
    inputs.check_context(manifest, longest)
    full, small = OwnRun(options.chosen_threads, inputs.home(ctx), longest, options.kv), longest // 2
    runs = {FULL: full}
    runs |= {policy: replace(full, context=small, when_full=policy) for policy in options.policies or LOSSY}
    sides = [StudySide(name, one.side(bundle, name)) for name, one in runs.items()]
    probe = EnergyProbe()
    with inputs.steps() as progress:
        found = find_needles(sides, trials, codec, manifest.spec.eos_ids, progress, probe)
    known = dict.fromkeys(found, traffics([EDGEDEC], manifest, None, options.kv)[EDGEDEC])
    answers = {name: one.answers for name, one in found.items()}
    room = {name: small for name in found if name != FULL}
    energies = energies_of_replies(answers, known, manifest.spec.window, probe.reason, room)
    if options.as_json:
        facts = {"model": manifest.name, "kv": options.kv, "longest": longest}
        facts |= {"tokens": options.text_tokens}
        shown = {policy: one.as_json(trials) for policy, one in found.items()}
        screen.show_json({**facts, "context": small, "sides": shown, "energy": energies.as_json()})
    else:
        title = f"{manifest.name}: facts found by their depth; a KV cache of {small} tokens, or full"
        _show(found, trials, title)
        show_energies(energies, FULL)


def _show(sides: Mapping[str, NeedleResult], trials: Sequence[NeedleTrial], title: str) -> None:
    from edgedec.cli.bench.tables import new_table, wide_console

    depths = sorted({trial.depth for trial in trials})
    table = new_table(("", "found", *(f"at {depth:.0%}" for depth in depths), "evicted", "time"))
    for policy, found in sides.items():
        counts = [str(found.at(depth, trials)) for depth in depths]
        evicted = f"{found.evicted} tokens" if found.evicted else "-"
        table.add_row(
            policy, f"{sum(found.right)} of {len(trials)}", *counts, evicted, f"{found.seconds:.1f} s"
        )
    console = wide_console()
    console.print(title)
    console.print(table)
