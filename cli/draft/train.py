"""``edgedec draft train``: train a head that drafts for a model, and install it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from edgedec.cli import options as opt
from edgedec.cli.draft import training
from edgedec.cli.rare import Command

_LEAST_TOKENS = 20_000
KINDS = {"head": "train_head"}
"""Kinds of drafters -> the module beside this one whose ``train(ctx, options)`` makes them."""


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
    "--kind", type=click.Choice(list(KINDS)), default="head", show_default=True, metavar="NAME",
    help="The drafter to train: head (one layer over the model's hidden states).",
)  # fmt: skip
@click.option(
    "--minutes", type=click.FloatRange(min=0, min_open=True), metavar="N",
    help=f"Train so long, beside gathering replies and features (default: {training.MINUTES:g}).",
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
    training.check(options)
    maker = import_module(f"edgedec.cli.draft.{KINDS[options['kind']]}")
    maker.train(ctx, options)
