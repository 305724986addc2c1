"""``edgedec draft exits``: how often a model's exits agree with it, and whether they can pay."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.draft import training
from edgedec.cli.progress import notice
from edgedec.cli.rare import Command
from edgedec.cli.services import services

if TYPE_CHECKING:
    from edgedec.bench.studies.exits import ExitReport, WayTimes
    from edgedec.core.forward import Forward
    from edgedec.core.progress import Progress
    from edgedec.core.rows import Keep
    from edgedec.draft.exit import Way
    from edgedec.runtime.loaded_model import LoadedModel
    from edgedec.training.exit_agreement import Agreed
    from edgedec.training.rollouts import Rollout

_LEAST_TOKENS = 1000
_MEASURED_TOKENS = 500
_REPEAT = 15


@click.command(
    "exits",
    cls=Command,
    short_help="Measure drafts after each part of a model's layers.",
    epilog=opt.examples(
        "edgedec draft exits -m gemma3-270m",
        "edgedec draft exits -m smollm2-135m --skip",
        "edgedec draft exits -m gemma3-270m --skip --search --measure 160",
        "edgedec draft exits --json | jq '.ways[] | [.name, .predicted_speed]'",
    ),
)
@opt.model_option
@click.option("--skip", is_flag=True, help="Measure drafts with a span of layers left out, too.")
@click.option(
    "--search", is_flag=True,
    help="With --skip: search for the best set of spans instead, and let `--draft skip` draft with it.",
)  # fmt: skip
@click.option(
    "--prompts", type=click.Path(path_type=Path), metavar="FILE",
    help="Prompts for missing replies, as in `edgedec draft rollouts` (default: a few built-in questions).",
)  # fmt: skip
@click.option(
    "--measure", type=click.IntRange(min=1), metavar="N", default=_MEASURED_TOKENS, show_default=True,
    help="Tokens of held-out replies to ask for.",
)  # fmt: skip
@click.option(
    "--tokens", type=click.IntRange(min=1), metavar="N", default=_LEAST_TOKENS, show_default=True,
    help="Gather replies first while there are fewer tokens of them.",
)  # fmt: skip
@click.option(
    "--repeat", type=click.IntRange(min=1), metavar="N", default=_REPEAT, show_default=True,
    help="Rounds of timing; every round times each way once.",
)  # fmt: skip
@opt.threads_option
@opt.json_option
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Measure drafts after each part of a model's layers: which agree with it, and whether they can pay.

    The model reads its own replies again, those to held-out prompts. For each exit the table has the share of
    their tokens that it says, without and with what was trained for it; the same as corrected by what it
    learns while decoding; the time of a draft step, in passes over one token; the agreement at which drafts
    would gain a tenth; and the predicted speed of the best chain over plain decoding. A trimmed head of the
    model is used. With --threads 1 the time is that of the processor, which other load changes least.

    With --skip --search spans of layers are left out one after another, each time the one that promises most
    with those left out already. The best set is kept; `--draft skip` drafts with it if it promises to gain.
    """
    from edgedec.cli.bench.inputs import find_bundle, steps
    from edgedec.core.cache_config import CacheConfig
    from edgedec.core.drafter_manifest import Target
    from edgedec.core.errors import UnsupportedError, UsageError
    from edgedec.runtime.loaded_model import load_models
    from edgedec.runtime.trim import kept_ids
    from edgedec.training.rollouts import RolloutStore, rollouts_folder

    if options["search"] and not options["skip"]:
        raise UsageError("--search is for layers to skip", hint="add --skip")
    bundle = find_bundle(ctx, options["model"])
    model, home = load_models(bundle, {}, options["threads"], True).target, services(ctx).store().home
    if not model.backend.caps.exits:
        raise UnsupportedError(f"{model.name} has no early exits", hint="pull or export the model again")
    store = RolloutStore(rollouts_folder(home, Target.of(model.manifest)))
    replies = training.gathered(ctx, model.manifest, store, options).held_out
    forward = model.backend.forward(CacheConfig(min(training.TEXT_TOKENS, model.spec.context_length)))
    keep = kept_ids(model.manifest, home)
    with steps() as progress:
        measured = _Measured(forward, replies, keep, options, progress)
        measured.add(_ways(model, forward, home, options["skip"] and not options["search"]))
        sets = measured.search() if options["search"] else {}
    report = measured.report(model.name)
    if sets:
        _keep_best(model, home, report, sets)
    if options["as_json"]:
        screen.show_json(report.as_json())
    else:
        _show(report)


class _Measured:
    """Ways that were measured so far: their agreement and times."""

    def __init__(
        self,
        forward: Forward,
        replies: Sequence[Rollout],
        keep: Keep | None,
        options: dict[str, Any],
        progress: Progress,
    ) -> None:
        self._forward, self._replies, self._keep = forward, replies, keep
        self._options, self._progress = options, progress
        self._names: dict[Way, str] = {}
        self._agreed: dict[Way, Agreed] = {}
        self._times: WayTimes | None = None

    def add(self, names: Mapping[Way, str]) -> None:
        """Measure ways, which the table calls so."""
        from edgedec.bench.studies.exits import time_ways
        from edgedec.training.exit_agreement import agreements

        self._names |= names
        self._agreed |= agreements(
            self._forward, self._replies, list(names), keep=self._keep, most_tokens=self._options["measure"],
            progress=lambda done, total: self._progress("agreement", done, total),
        )  # fmt: skip
        clock = time.process_time if self._options["threads"] == 1 else time.perf_counter
        times = time_ways(
            self._forward, list(names), self._keep,
            repeat=self._options["repeat"], progress=self._progress, clock=clock,
        )  # fmt: skip
        self._times = self._times | times if self._times else times

    def search(self) -> dict[Way, float]:
        """Measure sets of layers to skip; return their predicted speeds."""
        from edgedec.training.skip_search import searched

        def speeds(ways: Sequence[Way]) -> dict[Way, float]:
            self.add({way: way.name for way in ways})
            report = self.report("")
            return {way: report.speed(way) for way in ways}

        return searched(self._forward.caps.exits, speeds)

    def report(self, model: str) -> ExitReport:
        """Return the table of all that was measured."""
        from edgedec.bench.studies.exits import ExitReport

        assert self._times
        tokens = min(sum(len(one.reply) for one in self._replies), self._options["measure"])
        ids = None if self._keep is None else int(self._keep.size)
        agreement = {way: one.rate for way, one in self._agreed.items()}
        last = self._forward.caps.exits[-1]  # after all layers nothing is corrected
        corrected = {
            way: one.rate if way.exit == last else one.corrected_rate for way, one in self._agreed.items()
        }
        return ExitReport(model, self._names, agreement, corrected, self._times, tokens, ids)


def _keep_best(model: LoadedModel, home: Path, report: ExitReport, sets: Mapping[Way, float]) -> None:
    """Let ``skip`` stand for the best of the sets that were searched, and say so."""
    from edgedec.runtime.skips import save_skip

    best = max(sets, key=lambda way: sets[way])
    facts = {"agreement": round(report.agreement[best], 3), "tokens": report.tokens, "sets": len(sets)}
    save_skip(model.manifest, home, best, sets[best], facts)
    gains = "`--draft skip` drafts so" if sets[best] > 1.0 else "no gain, so `--draft skip` is nobody"
    notice(f"best of {len(sets)} sets: {best.name}, {sets[best]:.2f} of plain decoding; {gains}")


def _ways(model: LoadedModel, forward: Forward, home: Path, skip: bool) -> dict[Way, str]:
    """Return the ways to measure, and what the table calls them."""
    from edgedec.core.exits import Bypass
    from edgedec.draft.exit import Way
    from edgedec.runtime.exits import trained_exits
    from edgedec.runtime.target_drafters import exits_of, skips_of

    last, trained = forward.caps.exits[-1], trained_exits(model, home, notice)
    found: dict[Way, str] = {}
    for way in exits_of(forward.caps)[::-1]:
        found[way] = way.name
        if adapter := trained.get(way.exit):
            found[Way(way.exit, Bypass(last, adapter))] = f"{way.name}, trained"
    if skip:
        found |= {way: way.name for way in skips_of(forward.caps)}
    return found


def _show(report: ExitReport) -> None:
    from edgedec.cli.bench.tables import new_table, wide_console

    headings = ["drafts", "agreement", "corrected", "step, of a pass", "agreement that gains 1.1"]
    table = new_table([*headings, "predicted speed"])
    for way, name in report.names.items():
        needed = report.needed(way)
        table.add_row(
            name,
            f"{report.agreement[way]:.3f}",
            f"{report.corrected[way]:.3f}",
            f"{report.times.steps[way]:.2f}",
            "none" if needed is None else f"{needed:.2f}",
            f"{report.speed(way):.2f}",
        )
    head = "whole head" if report.ids is None else f"head trimmed to {report.ids:,} ids"
    console = wide_console()
    console.print(f"{report.model}: {report.tokens:,} tokens of held-out replies, {head}")
    console.print(table)
    console.print(
        "predicted speed: of the best chain of up to eight drafts, over plain decoding; one more token in a "
        f"pass takes {report.times.more:.2f} of it"
    )
