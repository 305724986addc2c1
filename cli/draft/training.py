"""Parts of ``edgedec draft train`` that every kind of drafter shares."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import screen
from edgedec.cli.draft.rollouts import USUAL, answer
from edgedec.cli.progress import notice
from edgedec.core.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from edgedec.core.listed_files import Scalar
    from edgedec.core.manifest import Manifest
    from edgedec.core.progress import Progress
    from edgedec.training.head_training import Replies
    from edgedec.training.rollouts import RolloutStore
    from edgedec.training.trainer import Trainer
    from edgedec.training.unrolling import Agreement

EPOCHS = 2
"""How often a training that is not told goes through the data."""
TEXT_TOKENS = 1024
"""Context of the target while it writes replies, and while it reads them again."""
ROLLOUTS: dict[str, Any] = {**USUAL, "greedy": True, "seed": None, "memory": None}
"""Settings of ``edgedec draft rollouts`` for replies that are missing."""


def check(options: dict[str, Any]) -> None:
    """Raise UsageError for options that contradict each other, and without torch."""
    given = [f"--{name}" for name in ("epochs", "steps", "minutes") if options[name]]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} are ways to say how long", hint="leave out all but one")
    if options["kind"] != "small" and (options["source"] or options["layers"]):
        raise UsageError("--from and --layers are for small models", hint="add --kind small")
    if find_spec("torch") is None:
        raise UsageError("training needs torch", hint="`pip install 'edgedec-runtime[train]'`")
    if options["plot"]:
        from edgedec.bench.plots.figure import check_plot

        check_plot(options["plot"])
    import torch

    if options["device"] == "cuda" and not torch.cuda.is_available():
        raise UsageError("torch finds no CUDA device here", hint="leave out --device")
    if options["threads"]:
        torch.set_num_threads(options["threads"])


def gathered(ctx: click.Context, manifest: Manifest, store: RolloutStore, options: dict[str, Any]) -> Replies:
    """Return the replies in ``store``; gather some first while there are fewer tokens than asked for."""
    from edgedec.training.head_training import Replies

    have = sum(len(one.reply) for one in store)
    if have < options["tokens"]:
        notice(f"{manifest.name} has {have} tokens of replies: it answers more prompts first")
        wanted = {"model", "prompts", "tokens", "threads"}
        given = {name: options[name] for name in wanted}
        given["context"] = min(TEXT_TOKENS, manifest.spec.context_length)
        outcome, report, _ = answer(ctx, {**ROLLOUTS, **given})
        if outcome.interrupted:
            raise KeyboardInterrupt
        if report["tokens"] < options["tokens"]:
            notice(f"all prompts have a reply: {report['tokens']} tokens; --prompts FILE can ask more")
    try:
        return Replies.of(store, manifest.name)
    except NotFoundError as error:
        raise NotFoundError(error.message, hint="--prompts FILE asks more") from error


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder of a training alone."""
    from edgedec.core.locks import exclusive

    def waiting() -> None:
        notice(f"waiting: another process uses {folder}")

    with exclusive(folder / "training.lock", waiting):
        yield


@contextmanager
def stop_at_interrupt() -> Iterator[Callable[[], bool]]:
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


def trained(trainer: Trainer[Any], options: dict[str, Any], progress: Progress) -> bool:
    """Train until the end of the run or Ctrl-C; return whether it came to its end."""
    from edgedec.training.trainer import Watch

    def measured(step: int, found: Agreement) -> None:
        rates = ", ".join(f"{rate:.2f}" for rate in found.rates)
        notice(f"step {step}: agreement {rates} by depth, {found.tokens_a_pass:.2f} tokens a pass")

    if trainer.unfinished:
        notice(f"going on after step {trainer.step} with the run that was not finished")
        if trainer.lost_s:
            notice(f"{trainer.lost_s:.0f} s of training after it were lost")
    seconds, steps = 60 * options["minutes"] if options["minutes"] else None, options["steps"]
    if not seconds and not steps:
        steps = trainer.steps_of(options["epochs"] or EPOCHS)
    with stop_at_interrupt() as stopped:
        watch = Watch(progress=progress, stop=stopped, measured=measured)
        return trainer.run(steps=steps, seconds=seconds, watch=watch)


def show(
    made: dict[str, Any],
    facts: dict[str, Scalar],
    found: Agreement,
    words: list[str],
    options: dict[str, Any],
) -> None:
    """Report a training: ``made`` says in ``--json`` what was installed, ``words`` say it to a reader."""
    if options["as_json"]:
        rates = [round(rate, 4) for rate in found.rates]
        measured = {"agreement": rates, "tokens_a_pass": round(found.tokens_a_pass, 4)}
        screen.show_json({**made, **measured, "facts": facts})
        return
    for name, value in facts.items():
        click.echo(f"{name:<24} {value}")
    for line in words:
        click.echo(line)
