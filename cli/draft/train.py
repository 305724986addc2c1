"""``edgedec draft train``: train a head that drafts for a model, and install it."""

from __future__ import annotations

from importlib import import_module

import click

from edgedec.cli import options as opt
from edgedec.cli.command import Command, taking
from edgedec.cli.draft import training

KINDS = {"head": "train_head", "small": "train_small"}
"""Kinds of drafters -> the module beside this one whose ``train(ctx, options)`` makes them."""


@click.command(
    "train",
    cls=Command,
    short_help="Train a head or a small model that drafts for a model.",
    epilog=opt.examples(
        "edgedec draft train --prompts prompts.jsonl --tokens 80000 --ids 8192 --quant q4_0",
        "edgedec draft train -m qwen2.5-coder-1.5b --minutes 240 --plot training.png",
        "edgedec draft train --steps 500 --json | jq .agreement",
        "edgedec draft train --kind small --layers 8 --minutes 240",
    ),
)
@taking(options=training.TrainOptions)
@click.pass_context
def command(ctx: click.Context, /, options: training.TrainOptions) -> None:
    """Train a head or a small model that drafts for a model, and install it.

    The model answers prompts until there are enough tokens of replies. It then reads them again for its
    hidden states. The head, one decoder layer, learns to guess the next tokens from these, three steps deep
    over its own guesses. Its agreement is measured on replies to prompts that are held out.

    A small model (--kind small) is some layers of the model, or of another one with the same tokens. It
    learns the model's best tokens on the same replies. It becomes a GGUF file and an installed model, which
    drafts when --draft names it.

    Ctrl-C saves and ends; a kill costs at most a minute. The same command finishes a run that was stopped,
    and otherwise goes on from the last checkpoint with another run. At the end the head is quantised, and
    drafts for the model from the next start on. Needs torch, which the extra train brings.
    """
    training.check(options)
    maker = import_module(f"edgedec.cli.draft.{KINDS[options.kind]}")
    maker.train(ctx, options)
