"""Tests that libraries leave the words of the command line to the command line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from edgedec.cli import remedies
from edgedec.cli.app import COMMANDS, app
from edgedec.core.errors import EdgeDecError, Remedy, RemedyName

ROOT = Path(__file__).parents[2]
LIBRARIES = ("edgedec", "export", "kernels", "models")
COMMAND = re.compile(rf"\bedgedec ({'|'.join(COMMANDS)})\b")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def commands() -> Iterator[click.Command]:
    context = click.Context(app)
    for name in COMMANDS:
        command = app.get_command(context, name)
        assert command is not None
        yield command
        if isinstance(command, click.Group):
            yield from (command.get_command(context, each) for each in command.list_commands(context))  # type: ignore[misc]


def options() -> set[str]:
    return {
        flag for one in commands() for option in one.params for flag in (*option.opts, *option.secondary_opts)
    }


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Every string of a module that is more than one word, and every comment."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
    for number, line in enumerate(source.splitlines(), 1):
        if "  # " in line or line.lstrip().startswith("# "):
            yield number, line.partition("# ")[2]


def test_no_library_names_an_option_or_a_command() -> None:
    known = options()
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for root in LIBRARIES
        for path in sorted((ROOT / root).rglob("*.py"))
        if "bench" not in path.relative_to(ROOT).parts
        for line, text in texts(path)
        for word in (*(m[0] for m in COMMAND.finditer(text)), *(f for f in FLAG.findall(text) if f in known))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("words", [remedies._CHANGE, remedies._SET], ids=["change", "set"])
def test_every_option_in_the_words_of_a_remedy_exists(words: dict[str, object]) -> None:
    known = options()
    for name, word in words.items():
        text = word if isinstance(word, str) else word(1)  # type: ignore[operator]
        assert name in RemedyName.__args__
        assert set(FLAG.findall(text)) <= known, text


def test_every_remedy_has_words() -> None:
    assert set(RemedyName.__args__) == set(remedies._CHANGE) | set(remedies._SET)


def test_remedies_that_start_alike_say_it_once() -> None:
    error = EdgeDecError("no", hint="allow more", remedy=(Remedy("memory", 299_000_001), Remedy("model")))
    assert remedies.hint_of(error) == "use --memory 300MB or more, or a smaller model"


def test_a_hint_without_a_remedy_stays() -> None:
    assert remedies.hint_of(EdgeDecError("no", hint="try again")) == "try again"
    assert remedies.hint_of(EdgeDecError("no")) is None


def test_every_option_says_what_it_takes_and_does() -> None:
    for command in commands():
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, (command.name, option.opts)
                assert option.is_flag or option.metavar, (command.name, option.opts)
