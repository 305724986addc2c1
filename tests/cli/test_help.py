"""The help of commands: what people use in groups, the rest behind ``--help-all``; the number of options."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from edgedec.cli.app import ALIASES, app
from edgedec.cli.command import Command, is_rare
from edgedec.drafters.model import ModelKind
from edgedec.drafters.registry import KINDS
from tests.cli.support import run

MOST_OPTIONS = 244
"""Options of all commands together: each is something to understand, to document and to test."""
MOST_SHOWN = 15
"""Options that the help of one command shows: about a dozen."""


def commands(group: click.Group = app, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command that is not another name of one, by the words that are typed for it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if found is None or (not words and name in ALIASES):
            continue
        yield " ".join((*words, name)), found
        if isinstance(found, click.Group):
            yield from commands(found, (*words, name))


def options(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option)]


def test_there_are_no_more_options_than_agreed() -> None:
    counts = {name: len(options(command)) for name, command in [("", app), *commands()]}
    assert sum(counts.values()) <= MOST_OPTIONS, counts


def test_the_help_names_every_kind_of_drafter() -> None:
    shown = " ".join(run(None, "chat", "--help").stdout.split())
    listed = shown.partition("by comma ")[2].partition(" and models")[0].split(", ")
    assert {kind.name for kind in KINDS if kind.name != ModelKind.name} < {*listed}


@pytest.mark.parametrize("name", ["chat", "run", "generate"])
def test_the_help_of_a_reply_shows_what_people_use_in_groups(name: str) -> None:
    shown = run(None, name, "--help").stdout
    places = [shown.index(f"\n{heading}:\n") for heading in ("Model", "Reply", "Memory and speed", "Output")]
    assert places == sorted(places)
    assert shown.index("Examples:") > places[-1]
    for option in ("--model", "--system", "--temperature", "--memory", "--draft", "--help-all"):
        assert f"{option} " in shown
    for option in ("--sampling", "--kv", "--switch", "--history"):
        assert f"{option} " not in shown
    assert len(shown.splitlines()) <= 66


@pytest.mark.parametrize("name", ["chat", "generate"])
def test_the_help_of_everything_has_each_option_and_more_words(name: str) -> None:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    shown = run(None, name, "--help-all").stdout
    for option in options(command):
        assert f"{option.opts[-1]} " in shown
    assert "--when-full slide" in shown
    assert "--when-full slide" not in run(None, name, "--help").stdout


@pytest.mark.parametrize(("name", "command"), commands(), ids=lambda one: one if isinstance(one, str) else "")
def test_no_help_is_too_long_and_each_says_where_the_rest_is(name: str, command: click.Command) -> None:
    common = [one for one in options(command) if not is_rare(one)]
    assert len(common) <= MOST_SHOWN
    rest = len(common) < len(options(command)) or "\f" in (command.help or "")
    assert not rest or isinstance(command, Command)
    assert ("--help-all" in run(None, *name.split(), "--help").stdout) == rest
