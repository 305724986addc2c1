"""Compare replies under several sampling settings: repetition, log-probability, right answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.opening import open_model
from edgedec.core.errors import UsageError
from edgedec.core.preset import DRAWING, Preset
from edgedec.sampling import DrawParams

if TYPE_CHECKING:
    from edgedec.bench.studies.sampling import Asked, SettingResult
    from edgedec.cli.bench.accuracy import AccuracyOptions

GREEDY, PRESET = "greedy", "preset"
_QUESTIONS = 16


def run(ctx: click.Context, options: AccuracyOptions) -> None:
    """Ask the questions under every setting, and show the figures of each."""
    from edgedec.assemble.config import RunConfig
    from edgedec.bench.studies.sampling import energies_of_settings, measure_settings
    from edgedec.cli.bench.energy_tables import show_energies

    asked = _asked(options)
    named = [_setting(text) for text in options.settings or (GREEDY, PRESET)]
    model = open_model(ctx, options.model, RunConfig(threads=options.threads))
    settings = [DrawParams.of(model.preset if one is None else one) for one in named]
    with inputs.steps() as progress:
        step = partial(progress, "replies")
        found = list(measure_settings(model, settings, asked, options.max_tokens, step))
    energies = energies_of_settings(found)
    if options.as_json:
        results = [one.as_json() for one in found]
        screen.show_json({"model": model.name, "results": results, "energy": energies.as_json()})
    else:
        click.echo(f"{model.name}, {len(asked)} questions, at most {options.max_tokens} tokens each\n")
        _show(found)
        show_energies(energies)


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


def _asked(options: AccuracyOptions) -> list[Asked]:
    from edgedec.bench.harness.texts import QUESTIONS, read_prompts
    from edgedec.bench.studies.number_questions import ENDING, NUMBER_QUESTIONS
    from edgedec.bench.studies.quality import read_problems
    from edgedec.bench.studies.sampling import Asked

    if len(options.files) > 1:
        raise UsageError("--task sampling takes one --input")
    file = options.files[0] if options.files else None
    if options.answers:
        pairs = (
            [(one.text, one.answer) for one in read_problems(file)]
            if file
            else [(f"{text} {ENDING}", answer) for text, answer in NUMBER_QUESTIONS]
        )
        return [Asked(text, answer) for text, answer in pairs[: options.limit]]
    found = [Asked(text) for text in (read_prompts(file) if file else QUESTIONS)]
    return found[: options.limit or _QUESTIONS]


def _show(found: Sequence[SettingResult]) -> None:
    click.echo("repeated  loops  at limit  log-prob.  right  setting")
    for one in found:
        facts = one.as_json()
        right = "" if facts["right"] is None else facts["right"]
        figures = f"{facts['repeated']:>8.1%}  {facts['loops']:>5}  {facts['cut']:>8}"
        click.echo(f"{figures}  {facts['mean_logprob']:>9.2f}  {right!s:>5}  {facts['sampling']}")
