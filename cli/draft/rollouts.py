"""``edgedec draft rollouts``: a model answers prompts, and its replies are kept as token ids."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench.inputs import find_bundle
from edgedec.cli.command import declared, new_command, option, taking
from edgedec.cli.draft.options import prompts_option
from edgedec.cli.draft.token_bar import token_bar
from edgedec.cli.interrupts import interrupts_to
from edgedec.cli.opening import open_model, say_overrun, without_template
from edgedec.cli.progress import notice
from edgedec.cli.services import services
from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.assemble.config import RunConfig
    from edgedec.bundle.manifest import Manifest
    from edgedec.session.conversations import Conversations
    from edgedec.training.gather import Gathered
    from edgedec.training.rollouts import RolloutWriter

_BATCH = 32
"""Prompts that are answered at a time, in one pass."""
_BATCH_WITHIN_BUDGET = 8
"""The same with ``--memory``: each conversation takes a KV cache of its own from the budget."""
CONTEXT_TOKENS = 1024
"""Tokens of a prompt with its reply; longer prompts are left out."""
_REPLY_TOKENS = 256


@dataclass(frozen=True, slots=True)
class RolloutOptions:
    """Which prompts a model answers, and how."""

    # fmt: off
    model: str = declared(opt.model_option)
    prompts: Path | None = declared(prompts_option(
        "One prompt per line; .jsonl: a string or an object with prompt, question, text or turns, of which "
        "the first is asked (default: a few built-in questions, for a try)."
    ))
    tokens: int | None = declared(option(
        "--tokens", type=click.IntRange(min=1), metavar="N",
        help="End when so many tokens of replies are kept in all (default: when all prompts are answered).",
    ))
    threads: int | None = declared(opt.threads_option)
    greedy: bool = declared(option(
        "--greedy", is_flag=True,
        help="Always take the most probable token. Without it tokens are drawn as the model's preset says.",
    ), default=False)
    max_tokens: int = declared(option(
        "--max-tokens", type=click.IntRange(min=1), metavar="N", default=_REPLY_TOKENS, show_default=True,
        help="Longest reply, in tokens.",
    ), default=_REPLY_TOKENS)
    memory: int | None = declared(opt.memory_option, default=None)
    # fmt: on


@new_command(
    "rollouts",
    "edgedec draft rollouts --prompts prompts.jsonl --greedy",
    "edgedec draft rollouts -m qwen2.5-coder-1.5b --prompts prompts.txt --tokens 200000",
    "edgedec draft rollouts --prompts prompts.jsonl --json | jq .tokens",
)
@taking(options=RolloutOptions)
@opt.json_option
@click.pass_context
def command(ctx: click.Context, /, options: RolloutOptions, as_json: bool) -> None:
    """Let a model answer prompts, and keep its replies as token ids.

    Drafters are made of these replies, and measured on the one in twenty that is held out. The same command
    goes on where it was stopped, by Ctrl-C or otherwise: prompts that have a reply are left out, and every
    reply that came to its end is kept.
    """
    outcome, report, known = answer(ctx, options)
    if as_json:
        screen.show_json(report)
    else:
        _show(report, known)
    if outcome.interrupted:
        raise KeyboardInterrupt


def answer(ctx: click.Context, options: RolloutOptions) -> tuple[Gathered, dict[str, Any], int]:
    """Gather replies as the options of this command say.

    Returns the outcome, a report of it as JSON fields, and the number of prompts that had a reply before.
    """
    from edgedec.bench.harness.texts import QUESTIONS, read_prompts
    from edgedec.bundle.drafter_manifest import Target
    from edgedec.bundle.manifest import Manifest
    from edgedec.training.rollouts import RolloutStore, rollouts_folder

    texts = read_prompts(options.prompts) if options.prompts else list(QUESTIONS)
    bundle = find_bundle(ctx, options.model)
    model = open_model(ctx, options.model, _config(options, Manifest.load(bundle)))
    target = Target.of(model.loaded.manifest)
    store = RolloutStore(rollouts_folder(services(ctx).store().home, target))
    raw, _ = without_template(model)
    several = model.conversations(max_tokens=options.max_tokens)

    def waiting() -> None:
        notice(f"waiting: another process adds to {store.folder}")

    began = time.monotonic()
    with several, store.writing(target, waiting) as writer:
        left, outcome = _gathered(several, texts, writer, raw, options.tokens)
        counts = {"replies": writer.replies, "tokens": writer.tokens}
    report = {
        "model": model.name,
        "folder": str(store.folder),
        **counts,
        "added_replies": outcome.replies,
        "added_tokens": outcome.tokens,
        "refused": outcome.refused,
        "seconds": round(time.monotonic() - began, 3),
    }
    say_overrun(model)
    return outcome, report, len(texts) - left


def _config(options: RolloutOptions, manifest: Manifest) -> RunConfig:
    from edgedec.assemble.config import RunConfig
    from edgedec.sampling.named import SamplingParams

    return RunConfig(
        threads=options.threads,
        context=min(CONTEXT_TOKENS, manifest.spec.context_length),
        memory=options.memory,
        conversations=_BATCH_WITHIN_BUDGET if options.memory else _BATCH,
        sampling=SamplingParams.greedy() if options.greedy else None,
    )


def _gathered(
    several: Conversations, texts: list[str], writer: RolloutWriter, raw: bool, most_tokens: int | None
) -> tuple[int, Gathered]:
    """Answer the prompts that have no reply; returns their number too."""
    from edgedec.training.gather import gather, unanswered

    left = unanswered(texts, writer, greedy=several.chats[0].settings.params.greedy)
    goal = None if most_tokens is None else max(most_tokens - writer.tokens, 0)
    with token_bar(len(left), goal) as bar, interrupts_to(several.interrupt):
        found = gather(several, left, writer, raw=raw, most_tokens=most_tokens, answered=bar)
    return len(left), found


def _show(report: dict[str, Any], known: int) -> None:
    rate = report["added_tokens"] / max(report["seconds"], 1e-9)
    click.echo(
        f"{report['added_replies']} replies of {report['model']}, {report['added_tokens']} tokens in "
        f"{report['seconds']:.0f} s ({rate:.0f} tok/s)"
    )
    if known:
        click.echo(f"{known} prompts had a reply before")
    if report["refused"]:
        click.echo(f"{report['refused']} prompts are too long for the context and were left out")
    click.echo(f"{report['replies']} replies with {report['tokens']} tokens are in {report['folder']}")
