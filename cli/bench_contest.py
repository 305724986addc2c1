"""``edgedec bench run`` with drafts or categories: what takes part, and the report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.bench.levels import FULL, Level
from edgedec.bench.sides import split_peer
from edgedec.cli import bench_common as common
from edgedec.cli.bench_options import Shared
from edgedec.cli.seams import fetch_drafts, seams
from edgedec.core.errors import EdgeDecError, MemoryBudgetError, UsageError
from edgedec.sampling import SamplingParams, drawing_bytes

if TYPE_CHECKING:
    from edgedec.bench.contest import Contestant, Plan
    from edgedec.bench.contest_report import ContestReport
    from edgedec.bench.questions import Question
    from edgedec.bench.within import Within
    from edgedec.core.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of a run with drafts or categories."""

    drafts: Sequence[str]
    categories: str | None
    per_category: int | None
    turns: int | None
    limit: int | None
    max_tokens: int
    ignore_end: bool
    cold: bool
    save: Path | None
    params: SamplingParams
    levels: Sequence[Level] = ()
    context: int | None = None
    chat_context: bool = False

    @property
    def specs(self) -> list[str]:
        """Ways to draft but "off", in the order given, each once."""
        return [spec for spec in dict.fromkeys(self.drafts) if spec != "off"]

    @property
    def within(self) -> list[tuple[str, Level]]:
        """Ways to draft, each with the levels of memory that it gets: all there is, then those asked for."""
        if not self.levels:
            return []
        levels = dict.fromkeys((FULL, *self.levels))
        return [(draft, level) for draft in dict.fromkeys(self.drafts or ("auto",)) for level in levels]


def is_wanted(shared: Shared, prompts: Path | None, wanted: Wanted) -> bool:
    """Whether there is anything to do that plain runs do not: drafts, categories, peers that draft."""
    if (wanted.context or wanted.chat_context) and not wanted.levels:
        raise UsageError(
            "--context and --chat-context belong to a run with --memory",
            hint="add --memory full, for example",
        )
    if wanted.context and wanted.chat_context:
        raise UsageError("--chat-context goes without --context", hint="leave one out")
    names = [name.strip() for name in (shared.peers or "").split(",")]
    if wanted.drafts or wanted.categories or wanted.per_category or wanted.levels:
        return True
    if any(split_peer(name)[1] != "off" for name in names):
        return True
    given = {
        "--turns": wanted.turns, "--ignore-end": wanted.ignore_end, "--cold": wanted.cold,
        "--save": wanted.save, "--temperature, --top-p and --seed": wanted.params != SamplingParams(),
    }  # fmt: skip
    for option, value in given.items():
        if value:
            raise UsageError(
                f"{option} belongs to a run with --draft or categories", hint="add --draft auto, for example"
            )
    return False


def run(ctx: click.Context, shared: Shared, wanted: Wanted, prompts: Path | None, plot: Path | None) -> None:
    """Measure, print, draw. Raises EdgeDecError when a side of ours said other tokens than plain decoding."""
    from edgedec.bench.contest import measure
    from edgedec.bench.contest_report import ContestReport
    from edgedec.bench.journal import Journal, digest
    from edgedec.bench.within import within
    from edgedec.cli.bench_contest_table import show
    from edgedec.core.manifest import Manifest
    from edgedec.telemetry.machine import describe

    _check(shared, wanted)
    bundle = common.find_bundle(ctx, shared.model)
    manifest = Manifest.load(bundle)
    questions = _questions(wanted, prompts)
    plan, longest = _plan(bundle, manifest, questions, wanted)
    everyone = _contestants(ctx, shared, wanted, bundle, manifest, longest)
    conditions = _conditions(shared, wanted, manifest, prompts, longest)
    journal = Journal.resume(conditions, wanted.save)
    with common.steps() as progress:
        measure(everyone, plan, journal, progress=progress)
    report = ContestReport(plan.questions, everyone, journal)
    rows = within(report)
    title = f"{manifest.name}, {describe().cpu}, {shared.chosen_threads} threads"
    if plot:
        _draw(report, rows, plot, title)
    if shared.as_json:
        facts = {"conditions": conditions, "hash": digest(conditions), "runs": journal.run}
        budgets = {"within": {row.side: row.as_json() for row in rows}} if rows else {}
        found = {"model": manifest.name, **facts, **report.as_json(), **budgets}
        click.echo(json.dumps(found, ensure_ascii=False))
    else:
        show(report, title, wanted.max_tokens)
    _judge(report, rows)


def _draw(report: ContestReport, rows: Sequence[Within], path: Path, title: str) -> None:
    """Speed over memory where there are budgets, else speed by category."""
    from edgedec.bench.contest_plot import draw_contest
    from edgedec.bench.within import plain_ratio
    from edgedec.bench.within_plot import draw_within

    if rows:
        plain = {draft: plain_ratio(report, draft) for draft in report.full}
        draw_within(rows, plain, path, title=title)
    else:
        draw_contest(report, path, title=title)


def _judge(report: ContestReport, rows: Sequence[Within]) -> None:
    """Raises EdgeDecError when other tokens came than from plain decoding, MemoryBudgetError when more memory
    was taken than promised.
    """
    lossy = [row.side for row in rows if not row.exact]
    bad = {side: found for side, found in report.differing().items() if found.replies and side not in lossy}
    if bad:
        counts = ", ".join(f"{side} in {found.replies} of {found.of}" for side, found in bad.items())
        raise EdgeDecError(f"replies differ from plain decoding's: {counts}", hint="this is a bug of EdgeDec")
    if over := [row.side for row in rows if row.over]:
        raise MemoryBudgetError(f"more memory than the budget was taken: {', '.join(over)}")


def _check(shared: Shared, wanted: Wanted) -> None:
    from edgedec.runtime.drafting import Drafting

    if wanted.levels and any(len(Drafting(spec).models) > 1 for spec in wanted.specs):
        raise UsageError("only one model can draft within --memory")
    names = shared.drafting_names()
    if names and wanted.params.temperature > 0:
        raise UsageError("the other runtimes decode greedily here", hint="leave out --peer or --temperature")


def _questions(wanted: Wanted, prompts: Path | None) -> list[Question]:
    from edgedec.bench.questions import chosen, plain_questions, read_questions
    from edgedec.bench.texts import PROMPTS

    found = plain_questions(PROMPTS) if prompts is None else read_questions(prompts)
    categories = [name.strip() for name in wanted.categories.split(",")] if wanted.categories else []
    return chosen(found, categories=categories, per_category=wanted.per_category, turns=wanted.turns)[
        : wanted.limit
    ]


def _plan(
    bundle: Path, manifest: Manifest, questions: Sequence[Question], wanted: Wanted
) -> tuple[Plan, int]:
    """The plan, and how many tokens the longest conversation can have."""
    from edgedec.bench.contest import Plan
    from edgedec.bench.conversation import Conversation, longest_prompt
    from edgedec.runtime.loaded_model import load_template
    from edgedec.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(bundle, manifest.tokenizer)
    template = load_template(bundle, tokenizer, manifest)
    ends = manifest.spec.eos_ids

    def script() -> Conversation:
        return Conversation(tokenizer, template, ends)

    longest = max(longest_prompt(one.turns, script(), wanted.max_tokens) for one in questions)
    context = longest + wanted.max_tokens
    common.check_context(manifest, context)
    stop = () if wanted.ignore_end else tuple(ends)
    return Plan(tuple(questions), script, wanted.max_tokens, stop, wanted.cold), context


def _contestants(
    ctx: click.Context, shared: Shared, wanted: Wanted, bundle: Path, manifest: Manifest, longest: int
) -> list[Contestant]:
    """Ours, plain decoding first, then the peers."""
    ours = _ours(ctx, shared, wanted, bundle, longest)
    return [*ours, *_theirs(ctx, shared, manifest, longest)]


def _ours(ctx: click.Context, shared: Shared, wanted: Wanted, bundle: Path, longest: int) -> list[Contestant]:
    """Ways to draft share a process, or each has one for every level of memory."""
    from edgedec.bench.contest import OFF, PLAIN, Contestant
    from edgedec.bench.sides import ours_drafting, ours_within
    from edgedec.runtime.drafting import Drafting

    draft_models: dict[str, Path] = {}
    for spec in wanted.specs:  # refuses what does not exist before anything is loaded
        draft_models |= fetch_drafts(ctx, Drafting(spec))
    settings: dict[str, Any] = {
        "threads": shared.chosen_threads,
        "costs": seams(ctx).store().home / "costs",
        "draft_models": draft_models,
        "isa": shared.isa,
        "kv": shared.kv,
    }
    own = ours_drafting(bundle, context=longest, **settings)
    arguments = {"sampling": asdict(wanted.params)}
    everyone = [Contestant(PLAIN, own, OFF, arguments)]
    if not wanted.levels:
        everyone += [Contestant(f"{PLAIN}+{spec}", own, spec, arguments) for spec in wanted.specs]
    settings |= {"context": _memory_context(wanted, longest), "elastic": wanted.chat_context}
    settings |= {"drawing": drawing_bytes(wanted.params)}
    for draft, level in wanted.within:
        name = f"{PLAIN}+{draft} at {level.name}"
        side = ours_within(bundle, name=name, level=level, draft=draft, **settings)
        everyone.append(Contestant(name, side, draft, arguments, draft, level))
    return everyone


def _theirs(ctx: click.Context, shared: Shared, manifest: Manifest, longest: int) -> list[Contestant]:
    """The peers; those of one runtime share a process."""
    from edgedec.bench.contest import OFF, Contestant

    names = shared.drafting_names()
    drafting = any(split_peer(name)[1] != OFF for name in names)
    runtimes = list(dict.fromkeys(split_peer(name)[0] for name in names))
    hosts = {
        side.name: side
        for side in common.all_peers(ctx, shared, manifest, runtimes, context=longest, all_rows=drafting)
    }
    split = {name: split_peer(name) for name in names}
    return [Contestant(name, hosts[runtime], mode) for name, (runtime, mode) in split.items()]


def _conditions(
    shared: Shared, wanted: Wanted, manifest: Manifest, prompts: Path | None, longest: int
) -> dict[str, Any]:
    """Everything that one measurement depends on; which questions and sides there are is not among it."""
    return {
        **common.conditions(shared, manifest, prompts),
        "max_tokens": wanted.max_tokens,
        "ignore_end": wanted.ignore_end,
        "cold": wanted.cold,
        "sampling": asdict(wanted.params),
        **({"kv": shared.kv} if shared.kv != "fp16" else {}),
        **({"memory_context": _memory_context(wanted, longest)} if wanted.levels else {}),
    }


def _memory_context(wanted: Wanted, longest: int) -> int | None:
    """Tokens of context that sessions within budgets would like; None: what a chat has, and budgets may
    shorten first.
    """
    return None if wanted.chat_context else wanted.context or longest
