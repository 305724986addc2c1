"""``edgedec bench memory``: peaks of memory beside budgets.

One program for all of memory: it runs sessions and compares their peaks with budgets and with each other. By
default these are random short sessions, with ``--chat`` one long session, with ``--peer`` one session of each
runtime. Speed within budgets belongs to ``bench drafts``, which compares replies.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.bench.harness.memory_levels import FULL, Level
from edgedec.bench.harness.runtimes import EDGEDEC, OTHERS, OwnRun
from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.options import (
    PeerOptions,
    check_task,
    count_option,
    input_option,
    last_options,
    levels_option,
    peer_options,
)
from edgedec.cli.rare import Command
from edgedec.core.errors import EdgeDecError, MemoryBudgetError, UsageError
from edgedec.core.units import size
from edgedec.sampling import SamplingParams

if TYPE_CHECKING:
    from edgedec.bench.studies.long_chat import LongChatReport
    from edgedec.bench.studies.peak_memory import MemorySide, PeakMemory
    from edgedec.bench.studies.random_sessions import SessionsReport
    from edgedec.core.manifest import Manifest
    from edgedec.memory import KvType

SESSIONS, CHAT, PEERS = "random sessions", "a long chat", "a run with --peer"
_RUN = ("levels", "max_tokens", "context", "threads", "kv")
USED = {
    SESSIONS: ("repeat", "drafts", "longest", "seed", "save"),
    CHAT: (*_RUN, "turns", "drafts", "file", "kill", "seed"),
    PEERS: (*_RUN, "prompt_tokens", "gguf", "peer_pythons", "peers"),
}
_CHAT_TOKENS, _PEER_TOKENS = 48, 64
_DRAFTS = ("auto", "lookup", "recycling", "off")
_LLAMA, _AS_MAPPED = "llama.cpp", "llama.cpp as mapped"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions(PeerOptions):
    repeat: int
    chat: bool
    drafts: tuple[str, ...]
    levels: tuple[Level, ...]
    max_tokens: int | None
    context: int | None
    kv: KvType
    longest: int
    seed: int
    turns: int
    file: Path | None
    save: Path | None
    kill: bool
    prompt_tokens: int

    @property
    def task(self) -> str:
        if self.chat and self.peers:
            raise UsageError("--chat and --peer are different tasks", hint="leave one out")
        return CHAT if self.chat else PEERS if self.peers else SESSIONS


@click.command(
    "memory",
    cls=Command,
    short_help="Peaks of random sessions, a long chat and peers.",
    epilog=opt.examples(
        "edgedec bench memory --repeat 200",
        "edgedec bench memory -m qwen2.5-coder-1.5b --draft auto --draft auto,smollm2-135m",
        "edgedec bench memory --repeat 20 --json | jq .measured_over_planned",
        "edgedec bench memory --chat --turns 200 --memory 230MB --kill",
        "edgedec bench memory -m model.gguf --peer llama.cpp,onnxruntime-genai --memory -65%",
    ),
)
@opt.model_option
@count_option("--repeat", "Random sessions.", 50)
@click.option("--chat", is_flag=True, help="Have one long chat instead.")
@peer_options(OTHERS)
@click.option(
    "--draft", "drafts", multiple=True, metavar="NAMES",
    help=f"Drafts to choose from; may be given several times (default: {', '.join(_DRAFTS)}). "
    "With --chat one (default: auto).",
)  # fmt: skip
@levels_option
@click.option(
    "--max-tokens", type=click.IntRange(min=2), metavar="N",
    help=f"With --chat: longest reply (default: {_CHAT_TOKENS}). With --peer: tokens decoded (default: "
    f"{_PEER_TOKENS}).",
)  # fmt: skip
@click.option(
    "--context", type=click.IntRange(min=2), metavar="N",
    help="With --chat and --peer: tokens of context (default: the model's own limit; those in use).",
)  # fmt: skip
@opt.kv_option
@count_option("--longest", "Random sessions: tokens of the longest context.", 1024, least=256)
@click.option(
    "--seed", type=int, default=0, show_default=True, metavar="S",
    help="Seed of the random sessions, or of the turn of --kill.",
)  # fmt: skip
@click.option(
    "--save", type=click.Path(path_type=Path), metavar="FILE",
    help="Random sessions: append each when it ends; the same command continues from there.",
)  # fmt: skip
@count_option("--turns", "With --chat: turns of the user.", 200)
@input_option("With --chat: texts of the user, repeated; one per line, or questions as for bench drafts.")
@click.option(
    "--kill", is_flag=True,
    help="With --chat: have it again up to a random turn, save it, kill its process, continue in another.",
)  # fmt: skip
@count_option("--prompt-tokens", "With --peer: tokens of the prompt.", 512)
@last_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Run sessions in processes of their own, and compare peaks of memory with budgets and plans.

    By default sessions are random. Their budgets lie between a little less than the smallest that fits and a
    little more than any use. The kernel counts each peak. Where control groups can be made (Linux, as root or
    below a group that systemd delegated) it also ends processes that go over; otherwise a line gives the
    reason why not. The exit status is 10 if a session went over.

    With --chat: one chat of many turns in one process, with its memory after every turn and the time of a
    token. The oldest turns are dropped when the context is full. The peak of the ten turns up to turn 20 (or
    half of a shorter chat) is compared with that of the last ten, and the time of a token in the first
    quarter with the last at equal context. With --kill the exit status is 1 if replies after the restart
    differ.

    With --peer: each side alone loads the same weights, reads the same prompt and continues it, in a context
    of the same size. "peak" is VmHWM, pages of mapped files included; "mapped" and "private" are its parts
    after the reply. "charged" is the peak of a control group of that process: private memory and files of the
    model, also where they are read and not mapped, without libraries. "llama.cpp as mapped" runs without its
    faster copies of weights. --memory adds sides within budgets.
    """
    options = MemoryOptions(**given)
    check_task(ctx, options.task, USED)
    {SESSIONS: _run_sessions, CHAT: _run_chat, PEERS: _run_peers}[options.task](ctx, options)


def _run_sessions(ctx: click.Context, options: MemoryOptions) -> None:
    from edgedec.bench.harness.saved_lines import SavedLines
    from edgedec.bench.studies.random_sessions import SessionsStudy, random_sessions
    from edgedec.core.manifest import Manifest

    bundle = inputs.find_bundle(ctx, options.model)
    drafts = options.drafts or _DRAFTS
    study = SessionsStudy(str(bundle), drafts, options.repeat, options.seed, options.longest)
    saved = None
    if options.save:
        conditions = inputs.conditions(options, Manifest.load(bundle), None)
        conditions |= {"drafts": list(drafts), "seed": options.seed, "longest": options.longest}
        saved = SavedLines(conditions, options.save)
    with inputs.steps() as progress:
        found = random_sessions(study, progress, saved)
    if options.as_json:
        screen.show_json(found.as_json())
    else:
        _show_sessions(found)
    if over := sum(one.over or one.killed for one in found.sessions):
        raise MemoryBudgetError(f"{over} of {options.repeat} sessions took more than their budget")


def _show_sessions(report: SessionsReport) -> None:
    found = report.as_json()
    held = "watched, not held, by the kernel" if report.watched else "held to its budget by the kernel"
    click.echo(f"{found['runs']} sessions, each {held}{report.watched and ': ' + report.watched}")
    click.echo(f"over budget {found['over']}, killed {found['killed']}, failed {found['failed']}")
    click.echo(f"refused: budget too small {found['refused']}, prompt too long {found['too_long']}")
    if report.ratios:
        low, median, high = found["measured_over_planned"]
        click.echo(
            f"peak over plan in the {found['filled']} that filled their context: "
            f"{median:.3f} (median), {low:.3f} to {high:.3f}"
        )
    spare = [one.budget - one.peak for one in report.sessions if one.peak]
    if spare:
        click.echo(f"nearest to its budget: {size(min(spare))} below it")


def _run_chat(ctx: click.Context, options: MemoryOptions) -> None:
    from edgedec.bench.harness.questions import read_questions
    from edgedec.bench.harness.texts import PROMPTS
    from edgedec.bench.studies.long_chat import killed_chat, long_chat
    from edgedec.core.manifest import Manifest

    drafts = options.drafts or ("auto",)
    if len(options.levels) > 1 or len(drafts) > 1:
        raise UsageError("a chat has one budget and one way to draft", hint="give --memory and --draft once")
    models = inputs.find_draft_models(ctx, drafts)
    if len(models) > 1:
        raise UsageError("only one model can draft within --memory", hint="name one")
    questions = read_questions(options.file) if options.file else []
    texts = [text for one in questions for text in one.turns] or list(PROMPTS)
    bundle = inputs.find_bundle(ctx, options.model)
    side = OwnRun(
        options.chosen_threads, inputs.home(ctx), options.context, options.kv, drafts[0], models,
        level=options.levels[0] if options.levels else FULL, max_tokens=options.max_tokens or _CHAT_TOKENS,
    ).side(bundle)  # fmt: skip
    with inputs.steps() as progress:
        report = long_chat(side, texts, options.turns, progress)
        if options.kill:
            report.killed = killed_chat(side, texts, report, options.seed, progress)
    name = Manifest.load(bundle).name
    budget = report.facts["memory"]["budget_bytes"] if options.levels else None
    if options.as_json:
        screen.show_json({"model": name, "budget_bytes": budget, **report.as_json()})
    else:
        _show_chat(name, report, budget)
    if report.killed and report.killed.same < report.killed.compared:
        raise EdgeDecError("after the restart the chat continued with other replies")
    if budget and report.peak > budget:
        raise MemoryBudgetError(f"{size(report.peak - budget)} more than --memory {size(budget)} were taken")


def _show_chat(name: str, report: LongChatReport, budget: int | None) -> None:
    plan, number, last = report.facts["memory"], report.settled_turn, len(report.turns)
    promised = f" of --memory {size(budget)}" if budget else ""
    click.echo(f"{name}: {last} turns, a context of {report.facts['capacity']} tokens")
    click.echo(f"peak {size(report.peak)}, planned {size(plan['planned_bytes'])}{promised}")
    for line in plan["given_up"]:
        click.echo(f"given up: {line}")
    click.echo(
        f"most resident up to turn {number}: {size(report.resident(number))}, up to turn {last}: "
        f"{size(report.resident(last))} ({report.growth / 1e3:+.1f} kB)"
    )
    click.echo(f"dropped turns: {report.dropped}; too long for the context: {report.refused}")
    if report.slowdown is None:
        click.echo("ms per token: no context is common to the first and the last quarter")
    else:
        click.echo(f"ms per token in the last quarter by the first, at equal context: {report.slowdown:.3f}")
        for band in report.bands():
            span = f"{band.low} to {band.high} tokens"
            click.echo(f"  {span:<22}{band.first_ms:8.2f} {band.last_ms:8.2f}   {band.ratio:.3f}")
    if killed := report.killed:
        click.echo(
            f"killed after turn {killed.turn} and restored: {killed.same} of the next {killed.compared} "
            "replies are the same"
        )
        for line in killed.notices:
            click.echo(f"  {line}")


def _run_peers(ctx: click.Context, options: MemoryOptions) -> None:
    from edgedec.bench.harness.texts import PROMPTS
    from edgedec.bench.studies.peak_memory import measure_memory
    from edgedec.core.manifest import Manifest

    names = options.peer_names(OTHERS, "cannot take part")
    bundle = inputs.find_bundle(ctx, options.model)
    manifest, count = Manifest.load(bundle), options.max_tokens or _PEER_TOKENS
    context = max(options.prompt_tokens + count, options.context or 0)
    inputs.check_context(manifest, context)
    (prompt,) = inputs.prompt_ids(bundle, manifest, PROMPTS[:1], options.prompt_tokens)
    asked = _own_sides(ctx, options, bundle, context) + _peers(ctx, options, manifest, names, context)
    with inputs.steps() as progress:
        found = measure_memory(asked, prompt, count, progress)
    if options.as_json:
        facts = {"model": manifest.name, "threads": options.chosen_threads, "context": context}
        facts |= {"prompt_tokens": options.prompt_tokens, "max_tokens": count}
        sides = {name: {**one.as_json(), "peak_by_edgedec": _by_own(found, name)}
                 for name, one in found.items()}  # fmt: skip
        screen.show_json({**facts, "sides": sides})
    else:
        title = f"{manifest.name}, {options.chosen_threads} threads"
        _show_peers(found, f"{title}: {options.prompt_tokens} + {count} tokens, a context of {context}")
    for level in options.levels:
        name = f"{EDGEDEC}+auto at {level.name}"
        if level.kind == "size" and found[name].peak > level.amount:
            raise MemoryBudgetError(f"{name} took {size(found[name].peak)}")


def _own_sides(ctx: click.Context, options: MemoryOptions, bundle: Path, context: int) -> list[MemorySide]:
    from edgedec.bench.studies.peak_memory import MemorySide

    run = OwnRun(options.chosen_threads, inputs.home(ctx), context, options.kv, level=FULL)
    ways = [(EDGEDEC, "off", FULL), (f"{EDGEDEC}+auto", "auto", FULL)]
    ways += [(f"{EDGEDEC}+auto at {level.name}", "auto", level) for level in options.levels]
    return [
        MemorySide(
            replace(run, draft=draft, level=level).side(bundle, name),
            "reply",
            {"stop": [], "mode": draft, "sampling": asdict(SamplingParams())},
        )
        for name, draft, level in ways
    ]


def _peers(
    ctx: click.Context, options: MemoryOptions, manifest: Manifest, names: list[str], context: int
) -> list[MemorySide]:
    """Peers; llama.cpp also without its faster copies of weights."""
    from edgedec.bench.studies.peak_memory import MemorySide

    asked = []
    for side in inputs.peer_sides(ctx, options, manifest, names, context=context):
        asked.append(MemorySide(side))
        if side.name == _LLAMA:
            mapped = replace(side, name=_AS_MAPPED, settings={**side.settings, "repack": False})
            asked.append(MemorySide(mapped))
    return asked


def _by_own(found: dict[str, PeakMemory], name: str) -> float:
    return round(found[name].peak / found[EDGEDEC].peak, 4)


def _show_peers(found: dict[str, PeakMemory], title: str) -> None:
    from edgedec.cli.bench.tables import megabytes, new_table, number, wide_console

    table = new_table(("", "peak", f"x {EDGEDEC}", "mapped", "private", "loading", "charged", "tok/s"))
    for name, one in found.items():
        charged = "-" if one.group is None else megabytes(one.group)
        sizes = [megabytes(count) for count in (one.mapped, one.private, one.loaded)]
        ratio = number(_by_own(found, name), 2)
        table.add_row(name, megabytes(one.peak), ratio, *sizes, charged, number(one.tokens_per_s, 1))
    console = wide_console()
    console.print(title, soft_wrap=True)
    console.print(table)
    for name, one in found.items():
        console.print(f"{name}: {one.version}", soft_wrap=True)
