"""``edgedec draft train``: one decoder layer that drafts from the target's hidden states."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli.bench.inputs import find_bundle, steps
from edgedec.cli.draft import training
from edgedec.cli.progress import reporter
from edgedec.cli.services import services
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.core.progress import Progress
    from edgedec.training.data import TrainingData
    from edgedec.training.head_training import HeadTraining, Replies

_BATCH_TOKENS = 512
_DEPTHS = 3
"""A fourth step over its own outputs would take a quarter more time for guesses that are seldom reached."""


def train(ctx: click.Context, options: training.TrainOptions) -> None:
    """Train a head, install it and report."""
    from edgedec.training.head_training import HeadSettings, HeadTraining
    from edgedec.training.recipe import TrainingRecipe

    bundle, home = find_bundle(ctx, options.model), services(ctx).store().home
    job = HeadTraining(bundle, home, HeadSettings(ids=options.ids, device=options.device))
    replies = training.gathered(ctx, job.manifest, job.store, options)
    with training.alone(job.folder), steps() as progress:
        data = _data(job, bundle, replies, options, progress)
        trainer = job.trainer(data, TrainingRecipe(batch_tokens=_BATCH_TOKENS, depths=_DEPTHS))
        training.run(trainer, options, progress)
        found = trainer.agreement()
        facts = job.facts(trainer, replies, found)
    with reporter() as progress:
        place = job.export(trainer, facts, options.quant, progress)
    name, nbytes = job.manifest.name, sum(file.stat().st_size for file in place.iterdir())
    made = {"model": name, "folder": str(place), "bytes": nbytes, "training": str(job.folder)}
    words = [f"{size(nbytes)} in {place}: the head drafts for {name} from now on"]
    training.show(made, facts, found, words, options)


def _data(
    job: HeadTraining, bundle: Path, replies: Replies, options: training.TrainOptions, progress: Progress
) -> TrainingData:
    """Open the target, and compute what is missing of its features."""
    from edgedec.backends.open import open_backend
    from edgedec.core.cache_config import CacheConfig
    from edgedec.text.tokenizer import Tokenizer
    from edgedec.training.features import Teacher

    keep = job.kept_ids(replies, Tokenizer.load(bundle, job.manifest.tokenizer))
    backend = open_backend(bundle, job.manifest, threads=options.threads, drafting=True)
    context = min(training.TEXT_TOKENS, job.manifest.spec.context_length)
    return job.data(replies, keep, Teacher(backend.forward(CacheConfig(context))), progress)
