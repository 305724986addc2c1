"""``edgedec bench drafts``: drafter sets by kind of question, also within memory budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.bench.harness.memory_levels import FULL, Level
from edgedec.bench.harness.runtimes import WITH_REPLIES, OwnRun, split_mode
from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.options import last_options, levels_option, peer_option, save_option
from edgedec.cli.bench.questions import QuestionOptions, asked_options, reply_study
from edgedec.cli.command import new_command
from edgedec.core.errors import EdgeDecError, MemoryBudgetError, UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.sampling import DrawParams

if TYPE_CHECKING:
    from edgedec.bench.harness.study import StudySide
    from edgedec.bench.studies.drafts import DraftsReport
    from edgedec.bench.studies.speed_within_budgets import BudgetRow, RefusedRow
    from edgedec.bundle.manifest import Manifest
    from edgedec.memory import KvType

MODES: dict[str, dict[str, Any]] = {"unprepared": {"prepared": False}, "filled": {"always": 8}}
"""Other modes, in which drafters begin or are fed otherwise, with the arguments of each reply."""
COLD = "cold"
"""The mode in which each question has a process of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftOptions(QuestionOptions):
    drafts: tuple[str, ...]
    temperature: float
    kv: KvType
    levels: tuple[Level, ...]
    save: Path | None
    modes: tuple[str, ...]

    @property
    def sampling(self) -> DrawParams:
        return DrawParams(temperature=self.temperature)

    @property
    def drafter_sets(self) -> list[str]:
        """Ways to draft, each once; within budgets "off" too."""
        return [
            drafters
            for drafters in dict.fromkeys(self.drafts or ("auto",))
            if drafters != "off" or self.levels
        ]

    @property
    def all_levels(self) -> list[Level]:
        """No limit, then the memory levels asked for; empty without any."""
        return list(dict.fromkeys((FULL, *self.levels))) if self.levels else []

    def check(self) -> None:
        """Raise UsageError for options that contradict each other."""
        from edgedec.drafters.registry import models_in, parsed

        if self.levels and self.modes:
            raise UsageError("--mode does not go with --memory", hint="leave one out")
        if self.levels and any(len(models_in(parsed(drafters))) > 1 for drafters in self.drafter_sets):
            raise UsageError("only one model can draft within --memory")
        if self.peers and self.temperature > 0:
            raise UsageError("other runtimes decode greedily here", hint="leave out --peer or --temperature")


@new_command(
    "drafts",
    "edgedec bench drafts --input spec_bench.jsonl --limit 4 --draft lookup --draft auto",
    "edgedec bench drafts -m q.gguf --draft auto --peer llama.cpp,llama.cpp-ngram --save run.jsonl",
    "edgedec bench drafts --input throughput-2k --limit 1 --draft lookup",
    "edgedec bench drafts --input spec_bench.jsonl --memory 230MB --memory -65%",
    "edgedec bench drafts --input spec_bench.jsonl --memory curve",
)
@opt.model_option
@asked_options
@click.option(
    "--draft", "drafts", multiple=True, metavar="NAMES",
    help="Drafters, as --draft of generate; may be given several times (default: auto).",
)  # fmt: skip
@levels_option
@peer_option(WITH_REPLIES)
@save_option
@click.option("--temperature", type=float, default=0.0, metavar="T", help="Draw tokens, as in generate.")
@opt.kv_option_of("fp16", "int8")
@click.option(
    "--mode", "modes", type=click.Choice([*MODES, COLD]), multiple=True, metavar="NAME",
    help="Add each drafter set once more. unprepared: without tables prepared for the model; filled: with up "
    "to 8 drafted tokens in every pass, whether they pay or not; cold: in a process started for each "
    "question. May be given several times.",
)  # fmt: skip
@last_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Answer every turn of the questions with plain decoding and with every drafter set, and compare.

    The sides take turns on each turn of a question. Speed-ups are medians over pairs of neighbouring replies,
    and ratios of all tokens by all time, by category. Drafters keep what they learn during the study. With
    --mode cold each set answers once more as a user's first question is answered, in a new process. Every
    reply of EdgeDec is compared with plain decoding; where one differs, the exit status is 1. llama.cpp-ngram
    drafts like ngram-simple of llama.cpp's tools.

    With --memory every drafter set answers within each budget, in a process per budget, and once without a
    limit, to which speeds are compared. Each has the context of a chat: the model's own limit, which budgets
    shorten before they take anything else. "generation" is the planned memory without weights and the loaded
    process: KV cache, scratch, rows, tables, draft model, slack. "measured" is the peak without the process
    as loaded and resident weights; "+ process" adds the process to "generation". Where a context is shorter,
    the oldest turns are dropped as in a chat; prompts that do not fit at all are counted, not compared. The
    exit status is 10 if a side takes more than its budget.
    """
    from edgedec.bench.harness.energy import EnergyProbe
    from edgedec.bench.harness.journal import Journal, SideAnswer
    from edgedec.bench.harness.pairing import plain
    from edgedec.bench.harness.replies import collect_replies
    from edgedec.bench.harness.saved_lines import digest
    from edgedec.bench.studies.drafts import DraftsReport, energies_of_report
    from edgedec.bench.studies.speed_within_budgets import budget_rows
    from edgedec.bench.studies.weights import pass_weights
    from edgedec.cli.bench.drafts_tables import show
    from edgedec.cli.bench.tables import show_energies
    from edgedec.telemetry.machine import describe

    options = DraftOptions(**given)
    options.check()
    names = options.peer_names(WITH_REPLIES, "does not reply until an end token")
    models = inputs.find_draft_models(ctx, options.drafter_sets)
    bundle, manifest = inputs.find_model(ctx, options.model)
    questions = options.questions(bundle, manifest)
    study, longest = reply_study(bundle, manifest, questions, options.max_tokens)
    run = OwnRun(
        options.chosen_threads,
        inputs.home(ctx),
        longest,
        options.kv,
        draft_models=models,
        modes={drafters: drafters for drafters in options.drafter_sets},
    )
    sides = _own_sides(options, bundle, run) + _peers(ctx, options, manifest, names, longest)
    probe = EnergyProbe()
    study = replace(study, energy=probe)
    conditions = _conditions(options, manifest)
    journal: Journal[SideAnswer] = Journal.resume(conditions, options.save)
    with inputs.steps() as progress:
        collect_replies(sides, study, journal, progress)
    weights = pass_weights(bundle).trimmed(1.0)
    report = DraftsReport(questions, sides, journal, weights)
    rows = budget_rows(report)
    energies = energies_of_report(report, manifest, options.gguf_file, probe, options.kv)
    title = f"{manifest.name}, {describe().cpu}, {options.chosen_threads} threads, KV cache in {options.kv}"
    if options.as_json:
        facts = {"conditions": conditions, "hash": digest(conditions), "runs": journal.run}
        budgets: dict[str, Any] = {"within": plain(rows)} if rows else {}
        budgets["energy"] = energies.as_json()
        screen.show_json({"model": manifest.name, **facts, **report.as_json(), **budgets})
    else:
        show(report, rows, f"{title}: at most {options.max_tokens} tokens each")
        show_energies(energies)
    _judge(report, rows)


def _own_sides(options: DraftOptions, bundle: Path, run: OwnRun) -> list[StudySide]:
    """Plain decoding first. All drafter sets share its process, or have one for each memory level.

    A cold side has its own.
    """
    from edgedec.bench.harness.study import OFF, PLAIN, StudySide

    arguments = {"sampling": asdict(options.sampling)}
    own = run.side(bundle)
    sides = [StudySide(PLAIN, own, OFF, arguments)]
    if not options.levels:
        sides += [
            StudySide(f"{PLAIN}+{drafters}", own, drafters, arguments) for drafters in options.drafter_sets
        ]
        for drafters in options.drafter_sets if COLD in options.modes else ():
            name = f"{PLAIN}+{drafters} cold"
            sides.append(StudySide(name, run.side(bundle, name), drafters, arguments, cold=True))
        return sides + [
            StudySide(f"{PLAIN}+{drafters} {name}", own, drafters, {**arguments, **MODES[name]})
            for name in dict.fromkeys(options.modes)
            if name != COLD
            for drafters in options.drafter_sets
        ]
    run = replace(run, context=None, sampling=options.sampling)
    for drafters in options.drafter_sets:
        for level in options.all_levels:
            name = f"{PLAIN}+{drafters} at {level.name}"
            process = replace(run, draft=drafters, level=level).side(bundle, name)
            sides.append(StudySide(name, process, drafters, arguments, level))
    return sides


def _peers(
    ctx: click.Context, options: DraftOptions, manifest: Manifest, names: list[str], context: int
) -> list[StudySide]:
    """Peers. Those of one runtime share a process."""
    from edgedec.bench.harness.study import OFF, StudySide

    split = {name: split_mode(name) for name in names}
    drafting = any(mode != OFF for _, mode in split.values())
    runtimes = list(dict.fromkeys(runtime for runtime, _ in split.values()))
    found = inputs.peer_sides(ctx, options, manifest, runtimes, context=context, all_rows=drafting)
    hosts = dict(zip(runtimes, found, strict=True))
    return [StudySide(name, hosts[runtime], mode) for name, (runtime, mode) in split.items()]


def _conditions(options: DraftOptions, manifest: Manifest) -> dict[str, Any]:
    """Return all that one reply depends on. The choice of questions and sides is not part of it."""
    return {
        **inputs.conditions(options, manifest, None if options.split else options.file),
        **({"input": options.split} if options.split else {}),
        "max_tokens": options.max_tokens,
        "kv": options.kv,
        "sampling": asdict(options.sampling),
    }


def _judge(report: DraftsReport, rows: Mapping[str, BudgetRow | RefusedRow]) -> None:
    """Raise EdgeDecError when replies differ, MemoryBudgetError when a budget was not kept."""
    from edgedec.bench.studies.speed_within_budgets import BudgetRow

    kept = {side: row for side, row in rows.items() if isinstance(row, BudgetRow)}
    lossy = [side for side, row in kept.items() if not row.same_replies_expected]
    bad = {side: found for side, found in report.differing().items() if found.replies and side not in lossy}
    if bad:
        counts = ", ".join(f"{side} in {found.replies} of {found.of}" for side, found in bad.items())
        raise EdgeDecError(f"replies differ from plain decoding: {counts}", hint="this is a bug of EdgeDec")
    if over := [side for side, row in kept.items() if row.over_budget]:
        raise MemoryBudgetError(f"budgets were not kept: {', '.join(over)}")
