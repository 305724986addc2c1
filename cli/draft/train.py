"""``edgedec draft train``: train a head that drafts for a model, and install it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from edgedec.cli import options as opt
from edgedec.cli.draft import training
from edgedec.cli.draft.options import prompts_option, tokens_option
from edgedec.cli.rare import Command

_LEAST_TOKENS = 20_000
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
@opt.model_option
@click.option(
    "--kind", type=click.Choice(list(KINDS)), default="head", show_default=True, metavar="NAME",
    help="The drafter to train: head (one layer over the model's hidden states), or small (a few layers of a "
    "model, which draft on their own).",
)  # fmt: skip
@click.option(
    "--from", "source", metavar="GGUF",
    help="For --kind small: the file that layers are taken of, or an installed model pulled with "
    "--keep-source (default: the model itself).",
)  # fmt: skip
@click.option(
    "--layers", type=click.IntRange(min=2), metavar="N",
    help="For --kind small: layers to keep, evenly spread, with the first and the last (default: 8).",
)  # fmt: skip
@click.option(
    "--epochs", type=click.FloatRange(min=0, min_open=True), metavar="N",
    help=f"Train so many times on all replies (default: {training.EPOCHS}).",
)  # fmt: skip
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Train so many steps instead.")
@click.option(
    "--minutes", type=click.FloatRange(min=0, min_open=True), metavar="N",
    help="Train so long instead, beside gathering replies and features. Results then depend on the machine.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), metavar="S", default=0, show_default=True,
    help="Decides the order of the data, and the weights that the model has no counterpart of.",
)  # fmt: skip
@prompts_option("Prompts for missing replies, as in `edgedec draft rollouts`")
@tokens_option("Gather replies first while there are fewer tokens of them.", _LEAST_TOKENS)
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
    """Train a head or a small model that drafts for a model, and install it.

    The model answers prompts until there are enough tokens of replies. It then reads them again for its
    hidden states. The head, one decoder layer, learns to guess the next tokens from these, three steps deep
    over its own guesses. Its agreement is measured on replies to prompts that are held out.

    A small model (--kind small) is some layers of the model, or of another one with the same tokens. It
    learns the model's best tokens on the same replies. It becomes a GGUF file and an installed model, which
    drafts when --draft names it.

    Ctrl-C saves and ends; a kill costs at most a minute. The same command finishes a run that was stopped,
    and otherwise goes on from the last checkpoint with another run. At the end the head is quantised, and
    drafts for the model from the next start on. Needs torch: pip install 'edgedec-runtime[train]'.
    """
    training.check(options)
    maker = import_module(f"edgedec.cli.draft.{KINDS[options['kind']]}")
    maker.train(ctx, options)
