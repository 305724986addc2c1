"""``edgedec draft train --from``: an adapter with which a smaller model drafts."""

from __future__ import annotations

from pathlib import Path

import click

from edgedec.cli.bench.inputs import find_bundle, steps
from edgedec.cli.draft import training
from edgedec.cli.draft.gguf_source import gguf_of
from edgedec.cli.progress import notice, reporter
from edgedec.cli.services import services
from edgedec.core.units import size


def train(ctx: click.Context, options: training.TrainOptions, named: str) -> None:
    """Train an adapter of the model ``named``, and install the model that it makes."""
    from edgedec.training.adapter_training import (
        MEASURED_DEPTHS,
        AdapterSettings,
        AdapterTraining,
    )
    from edgedec.training.unrolling import no_agreement

    bundle, home = find_bundle(ctx, options.model), services(ctx).store().home
    source = gguf_of(home, named)
    job = AdapterTraining(bundle, source, home, AdapterSettings(ids=options.ids, device=options.device))
    replies = training.gathered(ctx, job.manifest, job.store, options)
    with training.alone(job.folder), steps() as progress:
        data = job.data(replies, progress, _kinds(options.prompts))
        trainer, before = job.trainer(data)
        found = sum(before.values(), no_agreement(MEASURED_DEPTHS))
        notice(f"before: {training.agreement_words(found)}")
        training.run(trainer, options, progress)
        after = job.by_kind(trainer.learner, data)
        found = sum(after.values(), no_agreement(MEASURED_DEPTHS))
        facts = job.facts(trainer, replies, before, after)
    with reporter() as progress:
        file, made = job.export(trainer, facts, progress)
    shown = {
        "model": job.manifest.name,
        "draft": job.name,
        "adapter": str(file),
        "folder": str(made),
        "bytes": file.stat().st_size,
        "training": str(job.folder),
    }
    words = [
        f"{size(file.stat().st_size)} in {file}: all that another machine with {source.name} needs",
        f"draft with it: edgedec chat -m {job.manifest.name} --draft {job.name}",
    ]
    training.show(shown, facts, found, words, options)


def _kinds(prompts: Path | None) -> dict[str, str]:
    """Return the kinds that a file of prompts states, by the keys of their replies."""
    from edgedec.bench.harness.texts import read_kinds
    from edgedec.training.rollouts import key_of

    return {key_of(text): kind for text, kind in read_kinds(prompts).items()} if prompts else {}
