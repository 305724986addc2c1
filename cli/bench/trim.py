"""``edgedec bench trim``: trimmed heads of a drafter, by rounds that are always fed."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from edgedec.bench.harness.runtimes import OwnRun
from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.options import isa_option, last_options, save_option, use_isa
from edgedec.cli.bench.questions import QuestionOptions, asked_options, reply_study
from edgedec.cli.command import Command
from edgedec.core.errors import EdgeDecError, UsageError
from edgedec.sampling import DrawParams

if TYPE_CHECKING:
    from edgedec.bench.harness.replies import ReplySide
    from edgedec.bench.studies.trim import Subset
    from edgedec.bench.studies.trim_runs import TrimRuns
    from edgedec.draft.subset import Counts

_SIZES = (4096, 16384, 32768)
_STEPS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimRunOptions(QuestionOptions):
    draft: str
    ids: tuple[int, ...]
    steps: int
    save: Path | None
    plot: Path | None
    isa: str | None

    def check(self) -> None:
        """Raise UsageError for a picture that cannot be drawn, and for drafters without a head to trim."""
        from edgedec.bench.plots.figure import check_plot
        from edgedec.core.drafter_manifest import HEAD
        from edgedec.drafters.drafting import EXIT, Drafting

        if self.plot:
            check_plot(self.plot)
        named = Drafting(self.draft)
        found = (*named.models, *named.of_target)
        if len(found) != 1 or named.chosen or found[0] in (EXIT, HEAD):
            raise UsageError(
                f"--draft {self.draft} is not one drafter whose head can be trimmed",
                hint="name an exit, for example exit-18, or a draft model",
            )


@click.command(
    "trim",
    cls=Command,
    short_help="Trimmed heads of a drafter, by their rounds.",
    epilog=opt.examples(
        "edgedec bench trim -m gemma3-270m --draft exit-18 --input spec_bench.jsonl --per-category 2",
        "edgedec bench trim -m qwen2.5-coder-1.5b --draft smollm2-135m --ids 8192 --plot trim.svg",
    ),
)
@opt.model_option
@click.option(
    "--draft", required=True, metavar="NAME", help="An exit of the model, as exit-18, or a draft model."
)
@click.option(
    "--ids", type=click.IntRange(min=256), multiple=True, default=_SIZES, metavar="K",
    help="Size of a trimmed head, in whole tiles; may be given several times (default: "
    f"{', '.join(map(str, _SIZES))}).",
)  # fmt: skip
@click.option(
    "--steps", type=click.IntRange(1, 15), default=_STEPS, show_default=True, metavar="N",
    help="Tokens drafted and fed in every round.",
)  # fmt: skip
@asked_options
@opt.plot_option
@save_option
@isa_option
@last_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Answer questions with a drafter whose head is trimmed to several sizes, and with its full head.

    The ids are the most frequent ones in the replies of the drafter's model that `draft rollouts` gathered.
    Every round drafts and feeds as many tokens, whether they pay or not, so that rounds can be compared. Each
    head has a process of its own. MBSU follows from the bytes that the drafter read in these rounds. A head
    drafts with all ids where the text leaves its subset, as in generate.
    """
    from edgedec.bench.plots.trim_runs import draw_trim_runs

    options = TrimRunOptions(**given)
    options.check()
    use_isa(options.isa)
    found, title = _measure(ctx, options)
    if options.plot:
        draw_trim_runs(found, options.plot, title=title)
    if options.as_json:
        screen.show_json(found.as_json() | {"differing_replies": _differing(found)})
    else:
        _show(found, title)
    if wrong := {side: count for side, count in _differing(found).items() if count}:
        raise EdgeDecError(f"replies differ from plain decoding: {wrong}", hint="this is a bug of EdgeDec")


def _measure(ctx: click.Context, options: TrimRunOptions) -> tuple[TrimRuns, str]:
    from dataclasses import replace

    from edgedec.bench.harness.energy import EnergyProbe
    from edgedec.bench.harness.journal import Journal
    from edgedec.bench.harness.replies import collect_replies
    from edgedec.bench.studies.drafts import DraftsReport
    from edgedec.bench.studies.energies import energies_of_report
    from edgedec.bench.studies.trim_runs import TrimRuns
    from edgedec.bench.studies.weights import pass_weights
    from edgedec.core.manifest import Manifest

    models = inputs.find_draft_models(ctx, [options.draft])
    bundle = inputs.find_bundle(ctx, options.model)
    manifest = Manifest.load(bundle)
    trimmed = Path(models.get(options.draft, bundle))
    heads, held_out = _heads(ctx, trimmed, options.ids)
    questions = options.questions()
    study, context = reply_study(bundle, manifest, questions, options.max_tokens)
    probe = EnergyProbe()
    study = replace(study, energy=probe)
    conditions = inputs.conditions(options, manifest, options.file) | {
        "max_tokens": options.max_tokens, "draft": options.draft, "steps": options.steps,
    }  # fmt: skip
    journal = Journal.resume(conditions, options.save)
    run = OwnRun(
        options.chosen_threads, context=context, draft_models=models, modes={options.draft: options.draft},
        always=options.steps,
    )  # fmt: skip
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        sides = _sides(run, bundle, trimmed, heads, folder)
        collect_replies(sides, study, journal, stack.enter_context(inputs.steps()))
    weights = pass_weights(bundle).trimmed(1.0)
    report = DraftsReport(questions, sides, journal, weights)
    by_side = {side.name: head for side, head in zip(sides[1:], heads, strict=True)}
    title = f"{manifest.name}, drafts of {options.draft}, {options.steps} tokens a round"
    energies = energies_of_report(report, manifest, None, run.kv, probe)
    return TrimRuns(options.draft, options.steps, report, by_side, held_out, energies), title


def _heads(ctx: click.Context, bundle: Path, sizes: tuple[int, ...]) -> tuple[list[Subset], Counts]:
    """Return subsets in whole tiles, all ids last, and counts of held-out replies. Raises UsageError."""
    from edgedec.bench.studies.trim import subsets
    from edgedec.core.drafter_manifest import Target
    from edgedec.core.manifest import Manifest
    from edgedec.draft.subset import always_kept, counted
    from edgedec.drafters.trim import ends_of
    from edgedec.text.tokenizer import Tokenizer
    from edgedec.training.rollouts import RolloutStore, rollouts_folder

    manifest = Manifest.load(bundle)
    store = RolloutStore(rollouts_folder(Path(inputs.home(ctx)), Target.of(manifest)))
    counts, held_out = (
        counted((one.reply for one in store.chosen(held_out=held)), manifest.spec.vocab_size)
        for held in (False, True)
    )
    if not counts.any():
        raise UsageError(
            f"there are no replies of {manifest.name} to count ids in",
            hint="gather some with `edgedec draft rollouts`",
        )
    always = always_kept(Tokenizer.load(bundle, manifest.tokenizer), ends_of(manifest))
    return [head for head in subsets(counts, always, sizes) if head.whole], held_out


def _sides(run: OwnRun, bundle: Path, trimmed: Path, heads: list[Subset], folder: Path) -> list[ReplySide]:
    """Plain decoding, and a side for each head, whose home in ``folder`` has nothing but that head."""
    from dataclasses import replace

    from edgedec.bench.harness.replies import OFF, PLAIN, ReplySide
    from edgedec.bench.studies.weights import pass_weights
    from edgedec.core.manifest import Manifest
    from edgedec.drafters.trim import SAVED, save_trim

    weights = pass_weights(trimmed)
    arguments = {"sampling": asdict(DrawParams())}
    (draft,) = run.modes
    plain = replace(run, modes={}, draft_models={}, always=0)
    sides = [ReplySide(PLAIN, plain.side(bundle), OFF, arguments)]
    for head in heads:
        home = folder / str(head.ids.size)
        saved = (1.0 - head.share) * weights.head / weights.streamed
        save_trim(Manifest.load(trimmed), home, head.ids, {SAVED: float(saved), "ids": int(head.ids.size)})
        name = f"{PLAIN}+{draft} {head.ids.size}"
        sides.append(ReplySide(name, replace(run, home=str(home)).side(bundle, name), draft, arguments))
    return sides


def _differing(found: TrimRuns) -> dict[str, int]:
    return {side: count.replies for side, count in found.report.differing().items()}


def _show(found: TrimRuns, title: str) -> None:
    from edgedec.cli.bench.energy_tables import show_energies
    from edgedec.cli.bench.tables import new_table, number, percent, wide_console

    many = found.groups if len(found.groups) > 1 else []
    headings = [
        "ids",
        "covered",
        "accepted",
        *many,
        "tokens/pass",
        "ms/step",
        "MB/round",
        "MBSU",
        "over full",
    ]
    table = new_table([*headings, "embedding counted", "tok/s", "x plain, CPU"])
    for run in found.runs:
        score, drafter, memory = run.score, run.drafter, run.score.mbsu
        table.add_row(
            f"{run.subset.ids.size}",
            f"{run.coverage:.1%}",
            percent(score.acceptance_rate),
            *(percent(run.acceptance[name]) for name in many),
            number(score.block_efficiency, 2),
            number(drafter.ms_per_step, 2),
            number((drafter.bytes_per_round or 0.0) / 1e6, 1),
            number(memory.streamed if memory else None, 2),
            number(found.gain(run), 2),
            number(memory.parameters if memory else None, 2),
            number(score.total_rate, 1),
            number(run.speed_up, 2),
        )
    console = wide_console()
    console.print(f"{title}: {len(found.report.questions)} questions")
    console.print(table)
    differing = _differing(found)
    if found.energies:
        show_energies(found.energies)
    console.print(f"replies that differ from plain decoding: {sum(differing.values()) or 'none'}")
    for line in found.report.notices():
        console.print(line, soft_wrap=True)
