"""``edgedec bench quality``: what a choice that changes replies costs in right answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import bench_common as common
from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench_options import Shared
from edgedec.cli.seams import fetch_drafts, seams
from edgedec.core.units import size
from edgedec.sampling import SamplingParams

if TYPE_CHECKING:
    from edgedec.bench.contest import Contestant, Plan
    from edgedec.bench.journal import Journal
    from edgedec.bench.quality import Problem, SideQuality
    from edgedec.core.manifest import Manifest
    from edgedec.memory import KvType
    from edgedec.session.tokenizer import Tokenizer

_WIDTH = 1000
"""More than any line has: a column cut short would be no figure."""


@click.command(
    "quality",
    short_help="Right answers with a lossy choice, beside the exact one.",
    epilog=opt.examples(
        "edgedec bench quality -m qwen2.5-coder-1.5b --questions gsm8k.jsonl --kv fp16 --kv int8",
        "edgedec bench quality --questions gsm8k.jsonl --limit 100 --save quality.jsonl --json",
    ),
)
@opt.model_option
@click.option(
    "--questions", type=click.Path(path_type=Path), required=True, metavar="FILE",
    help="Questions in the format of GSM8K: .jsonl with question and answer, which ends in #### NUMBER.",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Ask the first N questions.")
@click.option(
    "--max-tokens", type=click.IntRange(min=1), default=256, show_default=True, metavar="N",
    help="Longest reply, in tokens.",
)  # fmt: skip
@click.option(
    "--kv", "kinds", type=click.Choice(["fp16", "int8"]), multiple=True, default=("fp16", "int8"),
    metavar="KIND",
    help="How the cache keeps keys and values, fp16 or int8: by default, both. The first is what the others "
    "are compared with.",
)  # fmt: skip
@click.option(
    "--draft", default="auto", show_default=True, metavar="NAMES",
    help="As --draft of generate: replies stay the same, and come sooner.",
)  # fmt: skip
@click.option(
    "--threads", type=click.IntRange(min=1), metavar="N",
    help="Threads to compute with (default: one per core).",
)  # fmt: skip
@click.option("--isa", metavar="ROW", help="Force a kernel row, like EDGEDEC_ISA (see `edgedec doctor`).")
@click.option(
    "--save", type=click.Path(path_type=Path), metavar="FILE",
    help="Append every reply as it comes; the same command goes on where it was stopped.",
)  # fmt: skip
@opt.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    questions: Path,
    limit: int | None,
    max_tokens: int,
    kinds: tuple[KvType, ...],
    draft: str,
    save: Path | None,
    **given: Any,
) -> None:
    """Ask questions that have one right number for an answer, on every side the same, and count.

    Each question is one user turn through the chat template, answered greedily; the last number of a reply is
    its answer. Every side is compared with the first one, question by question: how many both got right, how
    many only one of them, and how probable so uneven a split would be if neither were better (McNemar's exact
    test). Ctrl-C ends it with what there is. For KL divergence see `edgedec bench faithful --reference fp16`.
    """
    from edgedec.bench.journal import Journal, digest
    from edgedec.bench.quality import compared, read_problems
    from edgedec.core.manifest import Manifest
    from edgedec.memory import kv_bytes
    from edgedec.session.tokenizer import Tokenizer

    shared = Shared(peers=None, gguf=None, peer_pythons=(), **given)
    problems = read_problems(questions)[:limit]
    bundle = common.find_bundle(ctx, shared.model)
    manifest = Manifest.load(bundle)
    tokenizer = Tokenizer.load(bundle, manifest.tokenizer)
    kinds = tuple(dict.fromkeys(kinds))
    plan, context = _plan(bundle, manifest, tokenizer, problems, max_tokens)
    everyone = _contestants(ctx, shared, bundle, kinds, draft, context)
    conditions = {
        **common.conditions(shared, manifest, questions), "max_tokens": max_tokens, "base": kinds[0],
    }  # fmt: skip
    journal = Journal.resume(conditions, save)
    stopped = not _measured(everyone, plan, journal)
    held = {one.name: kv_bytes(manifest.spec, 1, one.process.settings["kv"]) for one in everyone}
    count, report = compared(problems, journal, held, decode=tokenizer.decode, ends=manifest.spec.eos_ids)
    sides = dict(zip(kinds, report.values(), strict=True))
    if shared.as_json:
        facts: dict[str, Any] = {"model": manifest.name, "conditions": conditions, "hash": digest(conditions)}
        facts |= {"questions": len(problems), "answered": count}
        screen.show_json({**facts, "sides": {name: side.as_json() for name, side in sides.items()}})
    else:
        _print(f"{manifest.name}, {count} of {len(problems)} questions", sides)
    if stopped:
        raise KeyboardInterrupt


def _plan(
    bundle: Path, manifest: Manifest, tokenizer: Tokenizer, problems: Sequence[Problem], max_tokens: int
) -> tuple[Plan, int]:
    """What is asked, and how many tokens the longest question and reply can have."""
    from edgedec.bench.contest import Plan
    from edgedec.bench.conversation import Conversation
    from edgedec.bench.questions import Question
    from edgedec.session.assemble import load_template

    template, ends = load_template(bundle, tokenizer, manifest), manifest.spec.eos_ids

    def script() -> Conversation:
        return Conversation(tokenizer, template, ends)

    context = max(len(script().prompt(one.text)) for one in problems) + max_tokens
    common.check_context(manifest, context)
    questions = tuple(Question(one.key, "gsm8k", (one.text,)) for one in problems)
    return Plan(questions, script, max_tokens, ends), context


def _contestants(
    ctx: click.Context, shared: Shared, bundle: Path, kinds: Sequence[KvType], draft: str, context: int
) -> list[Contestant]:
    """A process for each side; the first one is what others are compared with."""
    from edgedec.bench.contest import PLAIN, Contestant
    from edgedec.bench.sides import ours_drafting
    from edgedec.session.speculate import Drafting

    models = fetch_drafts(ctx, Drafting(draft))
    everyone: list[Contestant] = []
    for kv in kinds:
        name = f"{PLAIN}+{kv}" if everyone else PLAIN
        side = ours_drafting(
            bundle, threads=shared.chosen_threads, context=context, costs=seams(ctx).store().home / "costs",
            draft_models=models, isa=shared.isa, kv=kv,
        )  # fmt: skip
        sampling = {"sampling": asdict(SamplingParams())}
        everyone.append(Contestant(name, replace(side, name=name), draft, sampling))
    return everyone


def _measured(everyone: Sequence[Contestant], plan: Plan, journal: Journal) -> bool:
    """Whether all was asked: Ctrl-C ends it early."""
    from edgedec.bench.contest import measure

    try:
        with common.steps() as progress:
            measure(everyone, plan, journal, progress=progress)
    except KeyboardInterrupt:
        return False
    return True


def _print(title: str, sides: Mapping[KvType, SideQuality]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    headings = ("", "right", "both", "only base", "only this", "neither", "p", "same reply", "cut", "a token")
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for number, (name, side) in enumerate(sides.items()):
        pair = side.paired
        counts = [
            pair.both,
            pair.base_only,
            pair.side_only,
            pair.neither,
            f"{pair.p_value:.3g}",
            side.identical,
        ]
        compared = [str(value) if number else "" for value in counts]
        share = f"{sum(side.right) / max(len(side.right), 1):.1%} ({sum(side.right)})"
        table.add_row(name, share, *compared, str(side.cut), size(side.kv_bytes_per_token))
    console = Console(highlight=False, markup=False, width=_WIDTH)
    console.print(f"{title}; compared with the first, p: McNemar, exact; cut: not ended by itself")
    console.print(table)
