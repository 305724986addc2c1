"""``edgedec draft trim``: the part of a model's vocabulary that its drafts are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.command import new_command
from edgedec.cli.draft.options import LEAST_TOKENS, prompts_option
from edgedec.cli.draft.rollouts import RolloutOptions, answer
from edgedec.cli.services import services
from edgedec.core.errors import NotFoundError, Remedy
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.backends.backend import Backend
    from edgedec.bench.studies.trim import TrimPoint, TrimReport
    from edgedec.bundle.manifest import Manifest
    from edgedec.draft.subset import Counts

_REPEAT = 15
"""Rounds of timing; every round times each head once."""
_CONTEXT_TOKENS = 256


@new_command(
    "trim",
    "edgedec draft trim -m gemma3-270m",
    "edgedec draft trim -m qwen2.5-coder-1.5b --prompts prompts.jsonl",
    "edgedec draft trim --ids 16384 --json | jq .chosen.coverage",
)
@opt.model_option
@prompts_option(
    "Prompts that the model answers first where too few replies are kept, as in `edgedec draft rollouts`. "
    "Their categories divide the coverage."
)
@click.option(
    "--ids", type=click.IntRange(min=256), metavar="K",
    help="Keep about K ids, in whole tiles (default: the best of 2048 to 32768 and all).",
)  # fmt: skip
@opt.threads_option
@opt.json_option
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Choose the ids that a model's head computes when it drafts.

    The model's own replies are counted, and the most frequent ids are kept: beside end tokens, single bytes,
    and tokens that close JSON and code. The figures are those of a drafter with this head behind one layer:
    tokens outside are never drafted, and a step reads fewer bytes. They are measured on replies that were not
    counted. A drafter with this model's head uses the result from the next start on; replies stay the same.
    """
    from edgedec.backends.open import open_backend
    from edgedec.bench.studies.trim import require_trims
    from edgedec.bundle.manifest import Manifest
    from edgedec.cli.bench import inputs
    from edgedec.drafters.trim import remove_trim, save_trim

    bundle = inputs.find_bundle(ctx, options["model"])
    manifest = Manifest.load(bundle)
    backend = open_backend(bundle, manifest, threads=options["threads"], drafting=True)
    require_trims(manifest.name, backend.caps)
    replies = _replies(ctx, manifest, options)
    report = _measure(bundle, manifest, backend, replies, options)
    home, chosen = services(ctx).store().home, report.chosen
    if chosen.subset.full:
        remove_trim(manifest, home)
    else:
        save_trim(manifest, home, chosen.subset.ids, _facts(report, chosen))
    if options["as_json"]:
        screen.show_json(report.as_json())
    else:
        _show(report)


@dataclass(frozen=True, slots=True)
class _Replies:
    """Counts of the replies to make a head of, and of those that were held out, by category."""

    counts: Counts
    held_out: Mapping[str, Counts]


def _replies(ctx: click.Context, manifest: Manifest, options: dict[str, Any]) -> _Replies:
    """Count the model's replies; gather more where there are too few. Raises UsageError for too few."""
    from edgedec.bench.harness.questions import NO_CATEGORY, read_questions
    from edgedec.bundle.drafter_manifest import Target
    from edgedec.draft.subset import counted
    from edgedec.training.rollouts import RolloutStore, key_of, rollouts_folder

    vocab_size = manifest.spec.vocab_size
    store = RolloutStore(rollouts_folder(services(ctx).store().home, Target.of(manifest)))
    if options["prompts"] and sum(len(one.reply) for one in store) < LEAST_TOKENS:
        wanted = {name: options[name] for name in ("model", "prompts", "threads")}
        outcome, _, _ = answer(ctx, RolloutOptions(**wanted, tokens=LEAST_TOKENS))
        if outcome.interrupted:
            raise KeyboardInterrupt
    questions = read_questions(options["prompts"]) if options["prompts"] else []
    categories = {key_of(question.turns[0]): question.group for question in questions}
    held_out: dict[str, list[Sequence[int]]] = {}
    for one in store.chosen(held_out=True):
        held_out.setdefault(categories.get(one.key, NO_CATEGORY), []).append(one.reply)
    counts = counted((one.reply for one in store.chosen(held_out=False)), vocab_size)
    if not held_out or not counts.any():
        raise NotFoundError(
            f"too few replies of {manifest.name} are kept to choose a smaller vocabulary by, with which "
            "drafts take less time",
            remedy=Remedy("rollouts", manifest.name),
        )
    return _Replies(counts, {name: counted(some, vocab_size) for name, some in sorted(held_out.items())})


def _measure(
    bundle: Path, manifest: Manifest, backend: Backend, replies: _Replies, options: dict[str, Any]
) -> TrimReport:
    from edgedec.bench.studies import trim
    from edgedec.bench.studies.weights import pass_weights
    from edgedec.cli.bench import inputs
    from edgedec.core.cache_config import CacheConfig
    from edgedec.draft.subset import always_kept
    from edgedec.drafters.trim import ends_of
    from edgedec.text.tokenizer import Tokenizer

    always = always_kept(Tokenizer.load(bundle, manifest.tokenizer), ends_of(manifest))
    sizes = trim.SIZES if options["ids"] is None else (options["ids"],)
    heads = trim.subsets(replies.counts, always, sizes)
    forward = backend.forward(CacheConfig(_CONTEXT_TOKENS))
    with inputs.steps() as progress:
        times = trim.time_steps(forward, heads, repeat=_REPEAT, progress=progress)
    return trim.TrimReport(
        manifest.name, manifest.spec.n_layers, pass_weights(bundle), replies.held_out, heads, times,
        int(replies.counts.sum()), asked=options["ids"] is not None,
    )  # fmt: skip


def _facts(report: TrimReport, chosen: TrimPoint) -> dict[str, str | int | float | bool]:
    from edgedec.drafters.trim import SAVED

    saved = (1.0 - chosen.subset.share) * report.weights.head / report.weights.streamed
    return {
        "ids": int(chosen.subset.ids.size),
        "whole_tiles": chosen.subset.whole,
        "counted_tokens": report.counted_tokens,
        "coverage": round(chosen.coverage, 4),
        SAVED: round(saved, 4),
    }


def _show(report: TrimReport) -> None:
    from edgedec.bench.studies.trim import STEPS
    from edgedec.cli.bench.tables import new_table, wide_console

    names = [name for name in report.held_out if len(report.held_out) > 1]
    headings = ["ids", "", "rows read", "covered", *names, "step ms", "draft step ms", "draft step"]
    table = new_table([*headings, "MBSU", "over full", "embedding counted", "tok/s"])
    for point in report.points:
        gain = report.gain(point)
        table.add_row(
            f"{point.subset.ids.size}",
            "all" if point.subset.full else "tiles" if point.subset.whole else "single",
            f"{point.subset.rows}",
            f"{point.coverage:.1%}",
            *(f"{point.by_category[name]:.1%}" for name in names),
            f"{1e3 * point.step_s:.2f}",
            f"{1e3 * point.draft_s:.2f}",
            size(int(point.draft_bytes)),
            f"{point.mbsu.streamed:.2f}",
            f"{gain.streamed:.2f}",
            f"{point.mbsu.parameters:.2f}",
            f"{point.tokens_per_s:.1f}",
        )
    held_out = sum(int(counts.sum()) for counts in report.held_out.values())
    console = wide_console()
    console.print(f"{report.model}: {report.counted_tokens:,} tokens counted, {held_out:,} held out")
    console.print(table)
    console.print(
        f"draft steps: one layer and the head; MBSU and tok/s: predicted for chains of {STEPS} such steps, "
        f"right {report.acceptance:.0%} of the time with the full head"
    )
    console.print(f"chosen: {report.reason()}")
