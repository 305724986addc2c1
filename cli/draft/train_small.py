"""``edgedec draft train --kind small``: a few layers of a model, trained to draft for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli.bench.inputs import find_bundle, steps
from edgedec.cli.draft import training
from edgedec.cli.draft.gguf_source import gguf_of
from edgedec.cli.progress import notice, reporter
from edgedec.cli.services import services
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.core.progress import Progress
    from edgedec.disk.listed_files import Scalar
    from edgedec.training.data import TrainingData
    from edgedec.training.head_training import Replies
    from edgedec.training.small_learner import SmallLearner
    from edgedec.training.small_training import SmallTraining
    from edgedec.training.trainer import Trainer
    from edgedec.training.unrolling import Agreement

_LAYERS = 8


def train(ctx: click.Context, options: training.TrainOptions) -> None:
    """Train a small model and install it."""
    from edgedec.cli.draft import train_adapter
    from edgedec.training.adapter_training import has_other_tokens
    from edgedec.training.small_training import SMALL_RECIPE, SmallSettings, SmallTraining

    bundle = find_bundle(ctx, options.model)
    home = services(ctx).store().home
    source = gguf_of(home, options.source or options.model)
    if options.source and not options.layers and has_other_tokens(bundle, source):
        train_adapter.train(ctx, options, bundle, source, home)
        return
    layers, device = options.layers or _LAYERS, options.device
    settings = SmallSettings(layers, ids=options.ids, device=device)
    job = SmallTraining(bundle, source, home, settings)
    replies = training.gathered(ctx, job.manifest, job.store, options)
    with training.alone(job.folder), steps() as progress:
        data = _data(job, bundle, replies, options, progress)
        trainer = job.trainer(data, SMALL_RECIPE)
        if not training.trained(trainer, options, progress):
            notice(f"stopped at step {trainer.step}; the same command goes on")
            raise KeyboardInterrupt
        found = trainer.agreement()
        facts = job.facts(trainer, replies, found)
    _finish(job, trainer, facts, found, options)


def _data(
    job: SmallTraining, bundle: Path, replies: Replies, options: training.TrainOptions, progress: Progress
) -> TrainingData:
    """Open the target, and compute what is missing of its answers."""
    from edgedec.backends.open import open_backend
    from edgedec.core.cache_config import CacheConfig
    from edgedec.training.features import Teacher

    backend = open_backend(bundle, job.manifest, threads=options.threads)
    context = min(training.TEXT_TOKENS, job.manifest.spec.context_length)
    teacher = Teacher(backend.forward(CacheConfig(context)), hidden=False)
    return job.data(replies, job.kept_ids(replies), teacher, progress)


def _finish(
    job: SmallTraining,
    trainer: Trainer[SmallLearner],
    facts: dict[str, Scalar],
    found: Agreement,
    options: training.TrainOptions,
) -> None:
    """Install the model, draw the picture, and report."""
    from edgedec.training.log import TrainingLog

    with reporter() as progress:
        file, bundle = job.export(trainer, facts, options.quant, progress)
    if options.plot:
        TrainingLog(job.folder).draw(options.plot, title=job.name)
    made = {
        "model": job.manifest.name,
        "draft": job.name,
        "gguf": str(file),
        "folder": str(bundle),
        "bytes": file.stat().st_size,
        "training": str(job.folder),
    }
    words = [
        f"{size(file.stat().st_size)} in {file}",
        f"draft with it: edgedec chat -m {job.manifest.name} --draft {job.name}",
    ]
    training.show(made, facts, found, words, options)
