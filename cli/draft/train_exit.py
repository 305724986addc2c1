"""``edgedec draft train --kind exit``: corrections of early exits, for the model's own head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import screen
from edgedec.cli.bench.inputs import find_bundle, steps
from edgedec.cli.draft import training
from edgedec.cli.services import services

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgedec.core.manifest import Manifest
    from edgedec.training.exit_training import ExitSettings, TrainedExit


def train(ctx: click.Context, options: dict[str, Any]) -> None:
    """Fit the exits, measure them and install those that agree more often than without."""
    from edgedec.backends.open import open_backend
    from edgedec.core.cache_config import CacheConfig
    from edgedec.core.drafter_manifest import Target
    from edgedec.core.manifest import Manifest
    from edgedec.runtime.exits import save_exits
    from edgedec.runtime.trim import kept_ids
    from edgedec.training import exit_training as fit
    from edgedec.training.rollouts import RolloutStore, rollouts_folder
    from edgedec.training.target_weights import TargetWeights

    bundle = find_bundle(ctx, options["model"])
    manifest, home = Manifest.load(bundle), services(ctx).store().home
    backend = open_backend(bundle, manifest, threads=options["threads"], drafting=True)
    forward = backend.forward(CacheConfig(min(training.TEXT_TOKENS, manifest.spec.context_length)))
    settings = fit.ExitSettings(options["rank"], tuple(options["exit"]), options["tokens"])
    exits = fit.chosen_exits(manifest, forward, settings)
    store = RolloutStore(rollouts_folder(home, Target.of(manifest)))
    replies = training.gathered(ctx, manifest, store, options)
    data = fit.ExitData(forward, TargetWeights(bundle, manifest), replies, kept_ids(manifest, home))
    with steps() as progress:
        trained = fit.train_exits(data, exits, settings, progress)
    better = [one for one in trained if one.after > one.before]
    if better:
        facts = fit.facts_of(better, replies, settings)
        save_exits(manifest, home, [one.adapter for one in better], facts)
    _report(manifest, trained, settings, options["as_json"])


def _report(
    manifest: Manifest, trained: Sequence[TrainedExit], settings: ExitSettings, as_json: bool
) -> None:
    nbytes = sum(one.adapter.nbytes // 2 for one in trained if one.after > one.before)
    if as_json:
        exits = [
            {"exit": one.adapter.exit, "untrained": round(one.before, 4), "trained": round(one.after, 4)}
            for one in trained
        ]
        screen.show_json({"model": manifest.name, "rank": settings.rank, "bytes": nbytes, "agreement": exits})
        return
    from edgedec.cli.bench.tables import new_table, wide_console

    table = new_table(["exit after", "agreed untrained", "trained", ""])
    for one in trained:
        fate = "installed" if one.after > one.before else "no better: left out"
        table.add_row(f"{one.adapter.exit} layers", f"{one.before:.3f}", f"{one.after:.3f}", fate)
    wide_console().print(table)
    click.echo(f"{nbytes:,} bytes of weights; `edgedec draft exits -m {manifest.name}` says whether they pay")
