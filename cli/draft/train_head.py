"""``edgedec draft train``: one decoder layer that drafts from the target's hidden states."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli.bench.inputs import find_bundle, steps
from edgedec.cli.draft import training
from edgedec.cli.progress import notice, reporter
from edgedec.cli.services import services
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.core.progress import Progress
    from edgedec.disk.listed_files import Scalar
    from edgedec.training.data import TrainingData
    from edgedec.training.head_training import HeadTraining, Replies
    from edgedec.training.learner import HeadLearner
    from edgedec.training.recipe import TrainingRecipe
    from edgedec.training.trainer import Trainer
    from edgedec.training.unrolling import Agreement

_BATCH_TOKENS = 512
_DEPTHS = 3
"""A fourth step over its own outputs would take a quarter more time for guesses that are seldom reached."""


def train(ctx: click.Context, options: training.TrainOptions) -> None:
    """Train a head and install it."""
    bundle = find_bundle(ctx, options.model)
    job = _job(ctx, bundle, options)
    replies = training.gathered(ctx, job.manifest, job.store, options)
    with training.alone(job.folder), steps() as progress:
        data = _data(job, bundle, replies, options, progress)
        trainer = job.trainer(data, _recipe(options))
        if not training.trained(trainer, options, progress):
            notice(f"stopped at step {trainer.step}; the same command goes on")
            raise KeyboardInterrupt
        found = trainer.agreement()
        facts = job.facts(trainer, replies, found)
    _finish(job, trainer, facts, found, options)


def _job(ctx: click.Context, bundle: Path, options: training.TrainOptions) -> HeadTraining:
    from edgedec.training.head_training import HeadSettings, HeadTraining

    settings = HeadSettings(ids=options.ids, device=options.device)
    return HeadTraining(bundle, services(ctx).store().home, settings)


def _recipe(options: training.TrainOptions) -> TrainingRecipe:
    from edgedec.training.recipe import TrainingRecipe

    return TrainingRecipe(batch_tokens=_BATCH_TOKENS, depths=_DEPTHS)


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


def _finish(
    job: HeadTraining,
    trainer: Trainer[HeadLearner],
    facts: dict[str, Scalar],
    found: Agreement,
    options: training.TrainOptions,
) -> None:
    """Install the head, and report."""
    with reporter() as progress:
        place = job.export(trainer, facts, options.quant, progress)
    nbytes = sum(file.stat().st_size for file in place.iterdir())
    made = {
        "model": job.manifest.name,
        "folder": str(place),
        "bytes": nbytes,
        "training": str(job.folder),
    }
    words = [f"{size(nbytes)} in {place}: the head drafts for {job.manifest.name} from now on"]
    training.show(made, facts, found, words, options)
