"""``edgedec draft train``: train a head that drafts for a model, and install it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench.inputs import find_bundle, steps
from edgedec.cli.draft.rollouts import USUAL, answer
from edgedec.cli.progress import notice, reporter
from edgedec.cli.rare import Command
from edgedec.cli.services import services
from edgedec.core.errors import NotFoundError, UsageError
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.core.listed_files import Scalar
    from edgedec.core.progress import Progress
    from edgedec.training.data import TrainingData
    from edgedec.training.head_training import HeadTraining, Replies
    from edgedec.training.trainer import Trainer
    from edgedec.training.unrolling import Agreement

_MINUTES = 30.0
_LEAST_TOKENS = 20_000
_TEXT_TOKENS = 1024
_ROLLOUTS: dict[str, Any] = {**USUAL, "greedy": True, "seed": None, "memory": None}
"""Settings of ``edgedec draft rollouts`` for replies that are missing."""


@click.command(
    "train",
    cls=Command,
    short_help="Train a head that drafts for a model.",
    epilog=opt.examples(
        "edgedec draft train --minutes 60 --prompts prompts.jsonl --tokens 200000",
        "edgedec draft train -m qwen2.5-coder-1.5b --minutes 240 --plot training.png",
        "edgedec draft train --steps 500 --json | jq .agreement",
    ),
)
@opt.model_option
@click.option(
    "--minutes", type=click.FloatRange(min=0, min_open=True), metavar="N",
    help=f"Train so long, beside gathering replies and features (default: {_MINUTES:g}).",
)  # fmt: skip
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Train so many steps instead.")
@click.option(
    "--prompts", type=click.Path(path_type=Path), metavar="FILE",
    help="Prompts for missing replies, as in `edgedec draft rollouts` (default: a few built-in questions).",
)  # fmt: skip
@click.option(
    "--tokens", type=click.IntRange(min=1), metavar="N", default=_LEAST_TOKENS, show_default=True,
    help="Gather replies first while there are fewer tokens of them.",
)  # fmt: skip
@click.option(
    "--ids", type=click.IntRange(min=256), metavar="N", default=16384, show_default=True,
    help="Tokens that the head predicts: the most frequent ones. The first training decides it.",
)  # fmt: skip
@click.option(
    "--cache", type=opt.Size(), metavar="SIZE", default="4GB", show_default=True,
    help="Most disk space for features; those beyond it are computed at every use.",
)  # fmt: skip
@click.option(
    "--quant", metavar="FORMAT", default="q8_0", show_default=True,
    help="Format of the head's weights, as in `edgedec export`.",
)  # fmt: skip
@click.option(
    "--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True, metavar="NAME",
    help="Where the head is trained: cpu or cuda. The model itself always runs on the CPU.",
)  # fmt: skip
@opt.plot_option
@opt.threads_option
@opt.json_option
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Train a head that drafts for a model, and install it.

    The model answers prompts until there are enough tokens of replies. It then reads them again for its
    hidden states. The head, one decoder layer, learns to guess the next tokens from these, four steps deep
    over its own guesses. Its agreement is measured on replies to prompts that are held out.

    Ctrl-C saves and ends; a kill costs at most a minute. The same command finishes a run that was stopped,
    and otherwise goes on from the last checkpoint with another run. At the end the head is quantised, and
    drafts for the model from the next start on. Needs torch: pip install 'edgedec[train]'.
    """
    _check(options)
    bundle = find_bundle(ctx, options["model"])
    job = _job(ctx, bundle, options)
    replies = _replies(ctx, job, options)
    with _alone(job), steps() as progress:
        data = _data(job, bundle, replies, options, progress)
        trainer = job.trainer(data, _recipe())
        if not _train(trainer, options, progress):
            notice(f"stopped at step {trainer.step}; the same command goes on")
            raise KeyboardInterrupt
        found = trainer.agreement()
        facts = job.facts(trainer, replies, found)
    _finish(job, trainer, facts, found, options)


def _check(options: dict[str, Any]) -> None:
    """Raise UsageError for options that contradict each other, and without torch."""
    if options["minutes"] and options["steps"]:
        raise UsageError("--minutes and --steps are two ways to say how long", hint="leave out one of them")
    if find_spec("torch") is None:
        raise UsageError("training needs torch", hint="install it with `pip install 'edgedec[train]'`")
    if options["plot"]:
        from edgedec.bench.plots.figure import check_plot

        check_plot(options["plot"])
    import torch

    if options["device"] == "cuda" and not torch.cuda.is_available():
        raise UsageError("torch finds no CUDA device here", hint="leave out --device")
    if options["threads"]:
        torch.set_num_threads(options["threads"])


def _job(ctx: click.Context, bundle: Path, options: dict[str, Any]) -> HeadTraining:
    from edgedec.training.head_training import HeadSettings, HeadTraining

    settings = HeadSettings(ids=options["ids"], cache_bytes=options["cache"], device=options["device"])
    return HeadTraining(bundle, services(ctx).store().home, settings)


def _recipe() -> Any:
    from edgedec.training.trainer import TrainingRecipe

    return TrainingRecipe()


def _replies(ctx: click.Context, job: HeadTraining, options: dict[str, Any]) -> Replies:
    """Return the replies; gather some first while there are fewer tokens than asked for."""
    have = sum(len(one.reply) for one in job.store)
    if have < options["tokens"]:
        notice(f"{job.manifest.name} has {have} tokens of replies: it answers more prompts first")
        wanted = {"model", "prompts", "tokens", "threads"}
        given = {name: options[name] for name in wanted}
        given["context"] = min(_TEXT_TOKENS, job.manifest.spec.context_length)
        outcome, report, _ = answer(ctx, {**_ROLLOUTS, **given})
        if outcome.interrupted:
            raise KeyboardInterrupt
        if report["tokens"] < options["tokens"]:
            notice(f"all prompts have a reply: {report['tokens']} tokens; --prompts FILE can ask more")
    try:
        return job.replies()
    except NotFoundError as error:
        raise NotFoundError(error.message, hint="--prompts FILE asks more") from error


@contextmanager
def _alone(job: HeadTraining) -> Iterator[None]:
    """Hold the folder of the training alone."""
    from edgedec.core.locks import exclusive

    def waiting() -> None:
        notice(f"waiting: another process uses {job.folder}")

    with exclusive(job.folder / "training.lock", waiting):
        yield


@contextmanager
def _stop_at_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield whether Ctrl-C came. A second one raises KeyboardInterrupt at once."""
    came = False

    def first(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, first)
    try:
        yield lambda: came
    finally:
        signal.signal(signal.SIGINT, before)


def _data(
    job: HeadTraining, bundle: Path, replies: Replies, options: dict[str, Any], progress: Progress
) -> TrainingData:
    """Open the target, and compute what is missing of its features."""
    from edgedec.backends.open import open_backend
    from edgedec.core.cache_config import CacheConfig
    from edgedec.text.tokenizer import Tokenizer
    from edgedec.training.features import Teacher

    keep = job.kept_ids(replies, Tokenizer.load(bundle, job.manifest.tokenizer))
    backend = open_backend(bundle, job.manifest, threads=options["threads"], drafting=True)
    context = min(_TEXT_TOKENS, job.manifest.spec.context_length)
    return job.data(replies, keep, Teacher(backend.forward(CacheConfig(context))), progress)


def _train(trainer: Trainer, options: dict[str, Any], progress: Progress) -> bool:
    """Train until the end of the run or Ctrl-C; return whether it came to its end."""
    from edgedec.training.trainer import Watch

    def measured(step: int, found: Agreement) -> None:
        rates = ", ".join(f"{rate:.2f}" for rate in found.rates)
        notice(f"step {step}: agreement {rates} by depth, {found.tokens_a_pass:.2f} tokens a pass")

    if trainer.unfinished:
        notice(f"going on after step {trainer.step} with the run that was not finished")
    seconds = None if options["steps"] else 60 * (options["minutes"] or _MINUTES)
    with _stop_at_interrupt() as stopped:
        watch = Watch(progress=progress, stop=stopped, measured=measured)
        return trainer.run(steps=options["steps"], seconds=seconds, watch=watch)


def _finish(
    job: HeadTraining, trainer: Trainer, facts: dict[str, Scalar], found: Agreement, options: dict[str, Any]
) -> None:
    """Install the head, draw the picture, and report."""
    from edgedec.training.log import TrainingLog

    with reporter() as progress:
        place = job.export(trainer, facts, options["quant"], progress)
    if options["plot"]:
        TrainingLog(job.folder).draw(options["plot"], title=f"head of {job.manifest.name}")
    nbytes = sum(file.stat().st_size for file in place.iterdir())
    if options["as_json"]:
        screen.show_json(
            {
                "model": job.manifest.name,
                "folder": str(place),
                "bytes": nbytes,
                "training": str(job.folder),
                "agreement": [round(rate, 4) for rate in found.rates],
                "tokens_a_pass": round(found.tokens_a_pass, 4),
                "facts": facts,
            }
        )
        return
    for name, value in facts.items():
        click.echo(f"{name:<24} {value}")
    click.echo(f"{size(nbytes)} in {place}: the head drafts for {job.manifest.name} from now on")
