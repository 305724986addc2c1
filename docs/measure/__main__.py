"""Measure the tables of measured.md: ``python -m docs.measure [TABLE...]``."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from docs.measure.page import excess_words, markdown, replace_in
from docs.measure.runs import ROOT, Command, CommandError, Runs, here, linked_home, run_command
from docs.measure.tables import MODELS, TABLES, Given, Table
from edgedec.models import Store

PAGE = ROOT / "docs" / "measured.md"
FOLDER = ROOT / "build" / "measured"


def measure(
    tables: Sequence[Table], given: Given, runs: Runs, page: Path, tell: Callable[[str], None]
) -> dict[str, str]:
    """Measure the tables that fit the time, and write each into the page as soon as it is whole.

    Return the tables that were left, with the reason; the page keeps them as they were.
    """
    left = {}
    for table in tables:
        reason = table.lacks(given)
        commands = {} if reason else table.commands(given)
        found: dict[str, Mapping[str, Any]] = {}
        for model, command in commands.items():
            if (known := runs.known(command)) is None:
                if not runs.fits(command):
                    reason = f"no time for `{_shown(command)}`"
                    break
                tell(f"{table.name}: {_shown(command)}")
                try:
                    known = runs.measure(command)
                except CommandError as error:
                    reason = f"`{_shown(command)}`: {error}"
                    break
            found[model] = known
        if reason:
            left[table.name] = reason
            continue
        replace_in(page, table.name, table.title, block(table, commands, found, runs))
        tell(f"{table.name}: written")
    return left


def block(
    table: Table, commands: Mapping[str, Command], found: Mapping[str, Mapping[str, Any]], runs: Runs
) -> str:
    """Return a table with its conditions and its commands."""
    dates = sorted({str(one["date"]) for one in found.values()})
    results = {model: one["result"] for model, one in found.items()}
    others = max((one.get("others") or 0.0 for one in found.values()), default=0.0)
    where = runs.place.words(" and ".join(dates), others)
    shown = dict.fromkeys(_general(model, command) for model, command in commands.items())
    calls = "\n".join(f"`{one}`" for one in shown)
    return f"{where} {table.sentence}\n\n{markdown(table.head, table.rows(results))}\n\n{calls}"


def _shown(command: Command) -> str:
    words = [word.removeprefix(f"{ROOT}/") for word in command.arguments]
    return shlex.join(("edgedec", "bench", *words))


def _general(model: str, command: Command) -> str:
    """Return the command for any model: files by what they are, of other folders without their place."""
    words = []
    for at, word in enumerate(command.arguments):
        before = command.arguments[at - 1] if at else ""
        if before == "-m" and word == model:
            word = "MODEL"
        elif before == "--gguf":
            word = "FILE"
        elif before == "--input":
            inside = Path(word).is_relative_to(ROOT)
            word = str(Path(word).relative_to(ROOT)) if inside else "QUESTIONS"
        words.append(word)
    return shlex.join(("edgedec", "bench", *words))


def _ggufs(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, Path]:
    found = {}
    for text in given:
        model, _, file = text.partition("=")
        if model not in MODELS or not Path(file).is_file():
            raise click.BadParameter(f"{text} is not MODEL=FILE, with one of {', '.join(MODELS)}")
        found[model] = Path(file)
    return found


@click.command(
    epilog="\b\nExamples:\n  python -m docs.measure --minutes 30\n"
    "  python -m docs.measure speed drafts --questions spec_bench.jsonl"
)
@click.argument("names", metavar="[TABLE]...", nargs=-1, type=click.Choice([one.name for one in TABLES]))
@click.option("--minutes", type=click.FloatRange(min=0), default=60.0, show_default=True, metavar="N",
              help="Begin no command that would not end within so many minutes.")  # fmt: skip
@click.option("--questions", type=click.Path(path_type=Path, exists=True), metavar="FILE",
              help="Questions in the format of Spec-Bench (default: four prompts).")  # fmt: skip
@click.option("--gguf", "ggufs", multiple=True, callback=_ggufs, metavar="MODEL=FILE",
              help="The GGUF file of a model; may be given several times.")  # fmt: skip
@click.option("--folder", type=click.Path(path_type=Path), default=FOLDER, metavar="DIR",
              help="Keeps results; the same command goes on there (default: build/measured).")  # fmt: skip
@click.option("--page", type=click.Path(path_type=Path, exists=True), default=PAGE, metavar="FILE",
              help="The page to write (default: docs/measured.md).")  # fmt: skip
def command(
    names: tuple[str, ...],
    minutes: float,
    questions: Path | None,
    ggufs: dict[str, Path],
    folder: Path,
    page: Path,
) -> None:
    """Measure all tables, or those named, and write them into docs/measured.md.

    Commands run in the order of their tables' importance. A table that is whole replaces the older one at
    once, with commit, date and machine. After Ctrl-C the same command goes on; results of another commit or
    machine are measured anew, and so are pass costs. At the end it says which tables were left; they stay as
    they were.
    """
    chosen = [one for one in TABLES if not names or one.name in names]
    given = Given(questions and questions.resolve(), {name: one.resolve() for name, one in ggufs.items()})
    run = partial(run_command, linked_home(Store().home, folder))
    left = measure(chosen, given, Runs(folder, here(), minutes, run), page, click.echo)
    for name, reason in left.items():
        click.echo(f"left out: {name}: {reason}")
    if more := excess_words(page.read_text(encoding="utf-8")):
        click.echo(f"{page} has {more} words too many")


if __name__ == "__main__":
    command()
