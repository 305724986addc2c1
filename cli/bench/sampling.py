"""``edgedec bench sampling``: replies under several sampling settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.options import StudyOptions, count_option, input_option, last_options
from edgedec.cli.opening import open_model
from edgedec.core.errors import UsageError
from edgedec.core.preset import DRAWING, Preset
from edgedec.sampling import SamplingParams

if TYPE_CHECKING:
    from edgedec.bench.studies.sampling import Asked, SettingResult

GREEDY, PRESET = "greedy", "preset"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions(StudyOptions):
    settings: tuple[str, ...]
    file: Path | None
    answers: bool
    limit: int
    max_tokens: int


@click.command(
    "sampling",
    short_help="Replies under several sampling settings.",
    epilog=opt.examples(
        "edgedec bench sampling",
        "edgedec bench sampling --try greedy --try temperature=0.2,top_p=0.9 --input prompts.jsonl",
        "edgedec bench sampling -m qwen2.5-coder-1.5b --try preset --input gsm8k.jsonl --answers",
    ),
)
@opt.model_option
@click.option(
    "--try", "settings", multiple=True, metavar="SETTING", default=(GREEDY, PRESET),
    help="greedy, preset, or values by comma as in temperature=0.7,top_p=0.9; may be given several times "
    "(default: greedy and the model's preset).",
)  # fmt: skip
@input_option("One question per line; .jsonl: a string or an object with prompt, question, text or turns.")
@click.option("--answers", is_flag=True, help="Count right answers; --input is in the format of GSM8K.")
@count_option("--limit", "Ask the first N questions.", 16)
@count_option("--max-tokens", "Longest reply, in tokens.", 400)
@last_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Ask questions under several sampling settings, each in a conversation of its own.

    Each setting has its share of repeated 4-grams, the replies that end in a loop and those that reach the
    limit, and the mean log-probability of a token under the model at temperature 1. Question n is asked with
    seed n - 1.
    """
    from edgedec.bench.studies.sampling import measure_settings
    from edgedec.runtime.config import RunConfig

    options = SamplingOptions(**given)
    asked = _asked(options)
    named = [_setting(text) for text in options.settings]
    model = open_model(ctx, options.model, RunConfig(threads=options.threads))
    settings = [SamplingParams.of(model.preset if one is None else one) for one in named]
    with inputs.steps() as progress:
        step = partial(progress, "replies")
        found = list(measure_settings(model, settings, asked, options.max_tokens, step))
    if options.as_json:
        screen.show_json({"model": model.name, "results": [one.as_json() for one in found]})
    else:
        click.echo(f"{model.name}, {len(asked)} questions, at most {options.max_tokens} tokens each\n")
        _show(found)


def _setting(text: str) -> Preset | None:
    """Read a setting; None for the model's preset. Raises UsageError."""
    if text in (GREEDY, PRESET):
        return Preset() if text == GREEDY else None
    values: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        try:
            values[name.replace("-", "_")] = int(value) if name.endswith("k") else float(value)
        except ValueError:
            raise UsageError(f"{part!r:.60} is no value", hint="write temperature=0.7,top_p=0.9") from None
    if unknown := sorted(set(values) - set(DRAWING)):
        raise UsageError(f"there is no value {unknown[0]!r:.60}", hint=f"there are {', '.join(DRAWING)}")
    return Preset.from_json(values)


def _asked(options: SamplingOptions) -> list[Asked]:
    from edgedec.bench.harness.texts import QUESTIONS, read_prompts
    from edgedec.bench.studies.quality import read_problems
    from edgedec.bench.studies.sampling import Asked

    if options.answers:
        if options.file is None:
            raise UsageError("--answers needs questions", hint="give an --input in the format of GSM8K")
        found = [Asked(one.text, one.answer) for one in read_problems(options.file)]
    else:
        found = [Asked(text) for text in (read_prompts(options.file) if options.file else QUESTIONS)]
    return found[: options.limit]


def _show(found: Sequence[SettingResult]) -> None:
    click.echo("repeated  loops  at limit  log-prob.  right  setting")
    for one in found:
        facts = one.as_json()
        right = "" if facts["right"] is None else facts["right"]
        figures = f"{facts['repeated']:>8.1%}  {facts['loops']:>5}  {facts['cut']:>8}"
        click.echo(f"{figures}  {facts['mean_logprob']:>9.2f}  {right!s:>5}  {facts['sampling']}")
