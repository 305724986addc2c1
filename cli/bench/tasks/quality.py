"""Count right answers to questions with one right number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.bench.harness.runtimes import OwnRun
from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.core.cache_config import WhenFull
from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import size
from edgedec.sampling import DrawParams

if TYPE_CHECKING:
    from edgedec.bench.harness.energy import Energies
    from edgedec.bench.harness.journal import SideAnswer
    from edgedec.bench.harness.replies import ReplyStudy
    from edgedec.bench.harness.study import StudySide
    from edgedec.bench.studies.quality import MathProblem, SideQuality
    from edgedec.bundle.manifest import Manifest
    from edgedec.cli.bench.accuracy import AccuracyOptions
    from edgedec.memory import KvType

_REPLY_TOKENS = 256


@dataclass(frozen=True, slots=True)
class CacheSetting:
    """One side of ``quality``: type and tokens of its KV cache, and the eviction policy."""

    kv: KvType
    context: int
    when_full: WhenFull | None = None

    @property
    def label(self) -> str:
        return f"{self.kv} {self.when_full} {self.context}" if self.when_full else self.kv

    def nbytes(self, manifest: Manifest) -> dict[str, int]:
        from edgedec.memory import kv_bytes

        each, whole = (kv_bytes(manifest.spec, slots, self.kv) for slots in (1, self.context))
        return {"kv_bytes_per_token": each, "kv_cache_bytes": whole}


def run(ctx: click.Context, options: AccuracyOptions) -> None:
    """Ask the questions, and show right answers and McNemar's test."""
    from edgedec.bench.harness.energy import EnergyProbe
    from edgedec.bench.harness.journal import Journal
    from edgedec.bench.harness.replies import collect_replies
    from edgedec.bench.harness.saved_lines import digest
    from edgedec.bench.studies.quality import answered, compared, read_problems
    from edgedec.cli.bench.tables import show_energies

    if len(options.files) > 1:
        raise UsageError("--task quality takes one --input")
    problems = read_problems(options.files[0])[: options.limit]
    bundle, manifest = inputs.find_model(ctx, options.model)
    study, longest, sinks = _study(bundle, manifest, problems)
    settings = _settings(options, longest)
    run = OwnRun(options.chosen_threads, inputs.home(ctx), draft="auto", sinks=sinks)
    sides = _sides(bundle, run, settings)
    conditions = inputs.conditions(options, manifest, options.files[0])
    conditions |= {"max_tokens": study.max_tokens, "base": settings[0].kv}
    study = replace(study, energy=(probe := EnergyProbe()))
    journal: Journal[SideAnswer] = Journal.resume(conditions, options.save)
    stopped = False
    try:
        with inputs.steps() as progress:
            collect_replies(sides, study, journal, progress)
    except KeyboardInterrupt:
        stopped = True
    decode = inputs.load_text_parts(bundle, manifest)[0].decode
    names = [side.name for side in sides]
    count, found = compared(problems, journal, names, decode=decode, ends=manifest.spec.eos_ids)
    report = dict(zip(settings, found.values(), strict=True))
    solved = answered(problems, journal, names)
    answers = {
        setting: [journal.answers[one.key, 0, name] for one in solved]
        for setting, name in zip(settings, names, strict=True)
    }
    energies = _energies(answers, manifest, probe.reason)
    if options.as_json:
        facts = {"model": manifest.name, "conditions": conditions, "hash": digest(conditions)}
        shown = {
            setting.label: {**one.as_json(), **setting.nbytes(manifest)} for setting, one in report.items()
        }
        counts = {"questions": len(problems), "answered": count}
        screen.show_json({**facts, **counts, "sides": shown, "energy": energies.as_json()})
    else:
        _show(f"{manifest.name}, {count} of {len(problems)} questions", report, manifest)
        show_energies(energies, settings[0].label)
    if stopped:
        raise KeyboardInterrupt


def _energies(
    answers: Mapping[CacheSetting, Sequence[SideAnswer]], manifest: Manifest, reason: str
) -> Energies:
    from edgedec.bench.harness.energy import energies_of_replies, traffics
    from edgedec.bench.harness.runtimes import EDGEDEC

    known = {setting.label: traffics([EDGEDEC], manifest, None, setting.kv)[EDGEDEC] for setting in answers}
    room = {setting.label: setting.context for setting in answers if setting.when_full}
    replies = {setting.label: given for setting, given in answers.items()}
    return energies_of_replies(replies, known, manifest.spec.window, reason, room)


def _settings(options: AccuracyOptions, longest: int) -> list[CacheSetting]:
    """Return the sides, first those with room for the ``longest`` question and reply."""
    kinds: tuple[KvType, ...] = options.kinds or ("fp16", "int8")
    exact = [CacheSetting(kv, longest) for kv in dict.fromkeys(kinds)]
    policies = dict.fromkeys(options.policies)
    small = [CacheSetting(setting.kv, longest // 2, one) for one in policies for setting in exact]
    return [*exact, *small]


def _study(bundle: Path, manifest: Manifest, problems: Sequence[MathProblem]) -> tuple[ReplyStudy, int, int]:
    """Return the study, the tokens of the longest question and reply, and those before a question."""
    from edgedec.bench.harness.chat_prompts import prompts_of
    from edgedec.bench.harness.questions import Question
    from edgedec.bench.harness.replies import ReplyStudy
    from edgedec.session.prompt import Message, Prompts

    script, ends = prompts_of(bundle, manifest), tuple(manifest.spec.eos_ids)
    builder = Prompts(*inputs.load_text_parts(bundle, manifest))
    first = [Message("user", problems[0].text)]
    sinks = builder.preamble(first, builder.build(first))
    questions = tuple(Question(one.key, "gsm8k", (one.text,)) for one in problems)
    prompt = max(len(script().prompt(one.text)) for one in problems)
    longest = min(prompt + _REPLY_TOKENS, manifest.spec.context_length)
    inputs.check_context(manifest, prompt + 1)
    return ReplyStudy(questions, script, longest - prompt, ends), longest, sinks


def _sides(bundle: Path, run: OwnRun, settings: Sequence[CacheSetting]) -> list[StudySide]:
    """Return a process for each side. Drafts change no reply and save time."""
    from edgedec.bench.harness.study import PLAIN, StudySide

    sides: list[StudySide] = []
    for setting in settings:
        name = f"{PLAIN}+{setting.label}" if sides else PLAIN
        process = replace(run, context=setting.context, kv=setting.kv, when_full=setting.when_full).side(
            bundle, name
        )
        sides.append(StudySide(name, process, run.draft, {"sampling": asdict(DrawParams())}))
    return sides


def _show(title: str, sides: Mapping[CacheSetting, SideQuality], manifest: Manifest) -> None:
    from edgedec.cli.bench.tables import new_table, wide_console

    headings = ("", "right", "both", "only base", "only this", "neither", "p", "same reply", "cut", "cache")
    table = new_table(headings)
    for number, (setting, side) in enumerate(sides.items()):
        pair = side.paired
        cells = [*map(str, astuple(pair)), f"{pair.p_value:.3g}", str(side.identical)]
        share = f"{sum(side.right) / max(len(side.right), 1):.1%} ({sum(side.right)})"
        held = size(setting.nbytes(manifest)["kv_cache_bytes"])
        table.add_row(setting.label, share, *(cells if number else [""] * 6), str(side.cut), held)
    console = wide_console()
    console.print(f"{title}; compared with the first, p: McNemar, exact; cut: without an end token")
    console.print(table)
