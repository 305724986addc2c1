"""``edgedec draft train``: train a head or an adapter that drafts for a model, and install it."""

from __future__ import annotations

import click

from edgedec.cli.command import new_command, taking
from edgedec.cli.draft import training


@new_command(
    "train",
    "edgedec draft train --prompts prompts.jsonl --ids 8192 --quant q4_0",
    "edgedec draft train -m qwen2.5-coder-1.5b --minutes 240",
    "edgedec draft train --steps 500 --json | jq .agreement",
    "edgedec draft train -m qwen2.5-coder-1.5b --from smollm2-135m --minutes 120",
)
@taking(options=training.TrainOptions)
@click.pass_context
def command(ctx: click.Context, /, options: training.TrainOptions) -> None:
    """Train a head that drafts for a model, or an adapter of a smaller model, and install it.

    The model answers prompts until there are enough tokens of replies. It then reads them again for its
    hidden states. The head, one decoder layer, learns to guess the next tokens from these, three steps deep
    over its own guesses. Its agreement is measured on replies to prompts that are held out.

    With --from a smaller model is adapted instead, with the same tokens or others: the scales of its weights
    learn the same replies. The adapter and the model that it makes are installed. The model drafts when
    --draft names it.

    Ctrl-C saves and ends; a kill costs at most a minute. The same command finishes a run that was stopped,
    and otherwise goes on from the last checkpoint with another run. At the end the head is quantised, and
    drafts for the model from the next start on. Needs torch, which the extra train brings.
    """
    training.check(options)
    if options.source is None:
        from edgedec.cli.draft import train_head

        train_head.train(ctx, options)
    else:
        from edgedec.cli.draft import train_adapter

        train_adapter.train(ctx, options, options.source)
