"""``edgedec bench quality``: what a choice that changes replies costs in right answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import bench_common as common
from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench_options import Shared
from edgedec.cli.seams import fetch_drafts, seams
from edgedec.core.errors import UsageError
from edgedec.core.units import size
from edgedec.core.when_full import DROP, LOSSY
from edgedec.sampling import SamplingParams

if TYPE_CHECKING:
    from edgedec.bench.contest import Contestant, Plan
    from edgedec.bench.journal import Journal
    from edgedec.bench.quality import Problem, SideQuality
    from edgedec.core.manifest import Manifest
    from edgedec.memory import KvType
    from edgedec.text.tokenizer import Tokenizer


@click.command(
    "quality",
    short_help="Right answers with a lossy choice, beside the exact one.",
    epilog=opt.examples(
        "edgedec bench quality -m qwen2.5-coder-1.5b --questions gsm8k.jsonl --kv fp16 --kv int8",
        "edgedec bench quality --questions gsm8k.jsonl --limit 100 --save quality.jsonl --json",
        "edgedec bench quality --questions gsm8k.jsonl --kv fp16 --when-full slide --context 128",
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
@click.option("--system", metavar="TEXT", help="System message: how to answer.")
@click.option(
    "--kv", "kinds", type=click.Choice(["fp16", "int8"]), multiple=True, default=("fp16", "int8"),
    metavar="KIND",
    help="How the cache keeps keys and values, fp16 or int8: by default, both. The first is what the others "
    "are compared with.",
)  # fmt: skip
@click.option(
    "--when-full", "policies", type=click.Choice([DROP, *LOSSY]), multiple=True, metavar="WHAT",
    help="Ask with a cache of --context tokens too: slide or speckv, as with generate, or drop, where a "
    "reply ends with the cache and a question that does not fit has none. May be given several times.",
)  # fmt: skip
@click.option(
    "--context", type=click.IntRange(min=16), metavar="N", help="Tokens of the cache for --when-full."
)
@click.option(
    "--draft", default="auto", show_default=True, metavar="NAMES",
    help="As --draft of generate: replies stay the same, and come sooner.",
)  # fmt: skip
@opt.threads_option
@click.option("--isa", metavar="ROW", help="Force a kernel row, like EDGEDEC_ISA (see `edgedec doctor`).")
@click.option(
    "--save", type=click.Path(path_type=Path), metavar="FILE",
    help="Append every reply as it comes; the same command goes on where it was stopped.",
)  # fmt: skip
@opt.json_option
@click.pass_context
def command(
    ctx: click.Context, /, model: str, threads: int | None, isa: str | None, as_json: bool, **given: Any
) -> None:
    """Ask questions that have one right number for an answer, on every side the same, and count.

    Each question is one user turn through the chat template, answered greedily; the last number of a reply is
    its answer. Every side is compared with the first one, question by question: how many both got right, how
    many only one of them, and how probable so uneven a split would be if neither were better (McNemar's exact
    test). Ctrl-C ends it with what there is. For KL divergence see `edgedec bench faithful --reference fp16`.
    """
    from edgedec.bench.journal import Journal, digest
    from edgedec.bench.quality import compared
    from edgedec.core.manifest import Manifest
    from edgedec.text.tokenizer import Tokenizer

    wanted = Wanted(**given)
    shared = Shared(model, None, None, (), threads, isa, as_json)
    problems = wanted.problems()
    bundle = common.find_bundle(ctx, model)
    manifest = Manifest.load(bundle)
    tokenizer = Tokenizer.load(bundle, manifest.tokenizer)
    plan, prompts, sinks = _plan(bundle, manifest, tokenizer, problems, wanted)
    longest = max(map(len, prompts.values())) + wanted.max_tokens
    common.check_context(manifest, longest)
    ways = wanted.ways(longest)
    conditions = {**common.conditions(shared, manifest, wanted.questions), **wanted.conditions()}
    journal = Journal.resume(conditions, wanted.save)
    sides = _contestants(ctx, shared, bundle, ways, wanted.draft, sinks)
    _refuse(sides, ways, prompts, journal)
    stopped = not _measured(sides, plan, journal)
    names, ends = [one.name for one in sides], manifest.spec.eos_ids
    count, found = compared(problems, journal, names, decode=tokenizer.decode, ends=ends)
    report = dict(zip(ways, found.values(), strict=True))
    if as_json:
        facts = {"model": manifest.name, "conditions": conditions, "hash": digest(conditions)}
        shown = {way.label: {**one.as_json(), **way.nbytes(manifest)} for way, one in report.items()}
        screen.show_json({**facts, "questions": len(problems), "answered": count, "sides": shown})
    else:
        _print(f"{manifest.name}, {count} of {len(problems)} questions", report, manifest)
    if stopped:
        raise KeyboardInterrupt


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for."""

    questions: Path
    limit: int | None
    max_tokens: int
    system: str | None
    kinds: Sequence[KvType]
    policies: Sequence[str]
    context: int | None
    draft: str
    save: Path | None

    def problems(self) -> list[Problem]:
        from edgedec.bench.quality import read_problems

        return read_problems(self.questions)[: self.limit]

    def ways(self, longest: int) -> list[Way]:
        """The sides: first those whose cache has room for the ``longest`` question and reply."""
        common.check_when_full(self.policies, self.context)
        exact = [Way(kv, longest) for kv in dict.fromkeys(self.kinds)]
        full = [(way.kv, policy) for policy in dict.fromkeys(self.policies) for way in exact]
        return [*exact, *(Way(kv, self.context or longest, policy) for kv, policy in full)]

    def conditions(self) -> dict[str, Any]:
        return {"max_tokens": self.max_tokens, "system": self.system, "base": self.kinds[0]}


@dataclass(frozen=True, slots=True)
class Way:
    """One side: how the cache is kept, how many tokens it holds, and what is done when these are too few."""

    kv: KvType
    context: int
    when_full: str | None = None

    @property
    def label(self) -> str:
        return f"{self.kv} {self.when_full} {self.context}" if self.when_full else self.kv

    def nbytes(self, manifest: Manifest) -> dict[str, int]:
        from edgedec.memory import kv_bytes

        each, whole = (kv_bytes(manifest.spec, slots, self.kv) for slots in (1, self.context))
        return {"kv_bytes_per_token": each, "kv_cache_bytes": whole}


def _plan(
    bundle: Path, manifest: Manifest, tokenizer: Tokenizer, problems: Sequence[Problem], wanted: Wanted
) -> tuple[Plan, dict[str, list[int]], int]:
    """What is asked, the prompts of it, and how many of their tokens come before a question."""
    from edgedec.bench.contest import Plan
    from edgedec.bench.conversation import Conversation
    from edgedec.bench.questions import Question
    from edgedec.runtime.loaded_model import load_template
    from edgedec.session.prompt import Message, Prompts

    system = wanted.system
    if system and not manifest.tokenizer.chat_template:
        raise UsageError(f"{manifest.name} has no chat template, so no system message either")
    template, ends = load_template(bundle, tokenizer, manifest), manifest.spec.eos_ids

    def script() -> Conversation:
        return Conversation(tokenizer, template, ends, system)

    builder, before = Prompts(tokenizer, template), [Message("system", system)] if system else []
    first = [*before, Message("user", problems[0].text)]
    sinks = builder.preamble(first, builder.build(first))
    questions = tuple(Question(one.key, "gsm8k", (one.text,)) for one in problems)
    plan = Plan(questions, script, wanted.max_tokens, ends)
    return plan, {one.key: script().prompt(one.text) for one in problems}, sinks


def _contestants(
    ctx: click.Context, shared: Shared, bundle: Path, ways: Sequence[Way], draft: str, sinks: int
) -> list[Contestant]:
    """A process for each side; the first one is what others are compared with."""
    from edgedec.bench.contest import PLAIN, Contestant
    from edgedec.bench.sides import ours_drafting
    from edgedec.runtime.drafting import Drafting

    models = fetch_drafts(ctx, Drafting(draft))
    everyone: list[Contestant] = []
    for way in ways:
        name = f"{PLAIN}+{way.label}" if everyone else PLAIN
        side = ours_drafting(
            bundle, threads=shared.chosen_threads, context=way.context, draft_models=models, isa=shared.isa,
            costs=seams(ctx).store().home / "costs", kv=way.kv,
            when_full=way.when_full, sinks=sinks,
        )  # fmt: skip
        sampling = {"sampling": asdict(SamplingParams())}
        everyone.append(Contestant(name, replace(side, name=name), draft, sampling))
    return everyone


def _refuse(
    sides: Sequence[Contestant], ways: Sequence[Way], prompts: Mapping[str, Sequence[int]], journal: Journal
) -> None:
    """Questions that a side has no room for get no answer there."""
    from edgedec.bench.journal import Answer

    for side, way in zip(sides, ways, strict=True):
        for question, prompt in prompts.items():
            key = question, 0, side.name
            if way.when_full == DROP and len(prompt) >= way.context and key not in journal.answers:
                journal.add(Answer(*key, journal.run, [], 0.0, 0.0, prompt_tokens=len(prompt)))


def _measured(everyone: Sequence[Contestant], plan: Plan, journal: Journal) -> bool:
    """Whether all was asked: Ctrl-C ends it early."""
    from edgedec.bench.contest import measure

    try:
        with common.steps() as progress:
            measure(everyone, plan, journal, progress=progress)
    except KeyboardInterrupt:
        return False
    return True


def _print(title: str, sides: Mapping[Way, SideQuality], manifest: Manifest) -> None:
    from edgedec.cli.bench_table import new_table, wide_console

    headings = ("", "right", "both", "only base", "only this", "neither", "p", "same reply", "cut", "cache")
    table = new_table(headings)
    for number, (way, side) in enumerate(sides.items()):
        pair = side.paired
        counts = pair.both, pair.base_only, pair.side_only, pair.neither
        compared = [*map(str, counts), f"{pair.p_value:.3g}", str(side.identical)]
        share = f"{sum(side.right) / max(len(side.right), 1):.1%} ({sum(side.right)})"
        held = size(way.nbytes(manifest)["kv_cache_bytes"])
        table.add_row(way.label, share, *(compared if number else [""] * 6), str(side.cut), held)
    console = wide_console()
    console.print(f"{title}; compared with the first, p: McNemar, exact; cut: not ended by itself")
    console.print(table)
