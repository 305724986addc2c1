"""Parts of ``edgedec draft train`` that every kind of drafter shares."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.command import declared, option
from edgedec.cli.draft.options import LEAST_TOKENS, prompts_option
from edgedec.cli.draft.rollouts import RolloutOptions, answer
from edgedec.cli.interrupts import interrupts_to
from edgedec.cli.progress import notice
from edgedec.core.errors import NotFoundError, UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.installing import pip_install

if TYPE_CHECKING:
    from edgedec.bundle.manifest import Manifest
    from edgedec.core.progress import Progress
    from edgedec.disk.listed_files import Scalar
    from edgedec.training.head_training import Replies
    from edgedec.training.rollouts import RolloutStore
    from edgedec.training.trainer import Trainer
    from edgedec.training.unrolling import Agreement

EPOCHS = 2
"""How often a training goes through the data, unless a command says how long."""
TEXT_TOKENS = 1024
"""Context of the target while it writes replies, and while it reads them again."""
REPLY_TOKENS = 256
"""Longest reply that is gathered."""


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """Which drafter is trained, on what, and how long."""

    # fmt: off
    model: str = declared(opt.model_option)
    minutes: float | None = declared(option(
        "--minutes", type=click.FloatRange(min=0, min_open=True), metavar="N",
        help="Train so long, beside gathering replies and features; results then depend on the machine "
        f"(default: {EPOCHS} times through all replies).",
    ))
    steps: int | None = declared(option(
        "--steps", type=click.IntRange(min=1), metavar="N", help="Train so many steps instead."
    ))
    prompts: Path | None = declared(prompts_option(
        f"Prompts that the model answers first while fewer than {LEAST_TOKENS} tokens of replies are kept; "
        "`edgedec draft rollouts` gathers more."
    ))
    ids: int = declared(option(
        "--ids", type=click.IntRange(min=256), metavar="N", default=16384, show_default=True, rare=True,
        help="Tokens that the head predicts: the most frequent ones. The first training decides it.",
    ))
    quant: str = declared(option(
        "--quant", metavar="FORMAT", default="q8_0", show_default=True, rare=True,
        help="Format of the drafter's weights, as in `edgedec export`.",
    ))
    source: str | None = declared(option(
        "--from", "source", metavar="GGUF", rare=True,
        help="Adapt this smaller model instead of making a head: its GGUF file, or an installed model that "
        "was pulled with --keep-source.",
    ))
    device: str = declared(option(
        "--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True, metavar="NAME",
        rare=True, help="Where the drafter is trained: cpu or cuda. The model itself always runs on the CPU.",
    ))
    threads: int | None = declared(opt.threads_option)
    as_json: bool = declared(opt.json_option)
    # fmt: on


def check(options: TrainOptions) -> None:
    """Raise UsageError for options that contradict each other, and without torch."""
    if options.minutes and options.steps:
        raise UsageError("--steps and --minutes both say how long", hint="leave out one")
    if find_spec("torch") is None:
        raise UsageError("training needs torch", hint=f"`{pip_install('train')}`")
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        raise UsageError("torch finds no CUDA device here", hint="leave out --device")
    if options.threads:
        torch.set_num_threads(options.threads)


def gathered(ctx: click.Context, manifest: Manifest, store: RolloutStore, options: TrainOptions) -> Replies:
    """Return the replies in ``store``; gather some first while there are fewer tokens than asked for."""
    from edgedec.training.head_training import Replies

    have = sum(len(one.reply) for one in store)
    if have < LEAST_TOKENS and options.prompts:
        notice(f"{manifest.name} has {have} tokens of replies: it answers more prompts first")
        asked = RolloutOptions(
            options.model, options.prompts, LEAST_TOKENS, options.threads,
            greedy=True, max_tokens=REPLY_TOKENS,
        )  # fmt: skip
        outcome, report, _ = answer(ctx, asked)
        if outcome.interrupted:
            raise KeyboardInterrupt
        if report["tokens"] < LEAST_TOKENS:
            notice(f"all prompts have a reply: {report['tokens']} tokens; --prompts FILE can ask more")
    try:
        return Replies.of(store, manifest.name)
    except NotFoundError as error:
        raise NotFoundError(
            f"{error.message}: a drafter learns from them", hint="--prompts FILE asks more, a prompt a line"
        ) from error


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder of a training alone."""
    from edgedec.disk.locks import exclusive

    def waiting() -> None:
        notice(f"waiting: another process uses {folder}")

    with exclusive(folder / "training.lock", waiting):
        yield


def agreement_words(found: Agreement) -> str:
    """Say how often a drafter agrees with its target."""
    rates = ", ".join(f"{rate:.2f}" for rate in found.rates)
    return f"agreement {rates} by depth, {found.tokens_a_pass:.2f} tokens a pass"


def run(trainer: Trainer[Any], options: TrainOptions, progress: Progress) -> None:
    """Train until the end of the run. Raises KeyboardInterrupt where Ctrl-C ended it before."""
    from edgedec.training.trainer import Watch

    def measured(step: int, found: Agreement) -> None:
        notice(f"step {step}: {agreement_words(found)}")

    if trainer.unfinished:
        notice(f"going on after step {trainer.step} with the run that was not finished")
        if trainer.lost_s:
            notice(f"{trainer.lost_s:.0f} s of training after it were lost")
    seconds, steps = 60 * options.minutes if options.minutes else None, options.steps
    if not seconds and not steps:
        steps = trainer.steps_of(EPOCHS)
    stopped = Event()
    with interrupts_to(stopped.set):
        watch = Watch(progress=progress, stop=stopped.is_set, measured=measured)
        if not trainer.run(steps=steps, seconds=seconds, watch=watch):
            notice(f"stopped at step {trainer.step}; the same command goes on")
            raise KeyboardInterrupt


def show(
    made: dict[str, Any],
    facts: dict[str, Scalar],
    found: Agreement,
    words: list[str],
    options: TrainOptions,
) -> None:
    """Report a training: ``made`` says in ``--json`` what was installed, ``words`` say it to a reader."""
    if options.as_json:
        rates = [round(rate, 4) for rate in found.rates]
        measured = {"agreement": rates, "tokens_a_pass": round(found.tokens_a_pass, 4)}
        screen.show_json({**made, **measured, "facts": facts})
        return
    for name, value in facts.items():
        click.echo(f"{name:<24} {value}")
    for line in words:
        click.echo(line)
