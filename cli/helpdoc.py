"""Write the help in ``docs`` from the commands themselves: ``python -m edgedec.cli.helpdoc docs``.

The text does not depend on the layout of click, so every version of click gives the same.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from edgedec.cli.app import ALIASES, COMMANDS, app
from edgedec.cli.command import by_heading
from edgedec.cli.slash.table import COMMANDS as SLASH
from edgedec.disk.files import atomic_path

_MAIN = "help.md"
_OWN = {"bench": "help-bench.md"}
"""Files of the commands that have many parts."""
_WRITTEN = "<!-- Written by `python -m edgedec.cli.helpdoc docs`; do not edit. -->"


def documents() -> dict[str, str]:
    """Return the help as Markdown, by file."""
    found = {_MAIN: _lines()}
    found |= {file: _own(name) for name, file in _OWN.items()}
    return {file: "\n".join(lines).rstrip("\n") + "\n" for file, lines in found.items()}


def _lines() -> Iterator[str]:
    yield from ("# Commands", "", _WRITTEN, "")
    for name, summary in COMMANDS.items():
        yield f"- [`edgedec {name}`]({_OWN.get(name, '')}#edgedec-{ALIASES.get(name, name)}): {summary}"
    yield ""
    yield str(app.epilog)
    for name in COMMANDS:
        if name not in (*_OWN, *ALIASES):
            yield from _command(name, _found(name))
        if name == "chat":
            yield from _slash()


def _own(name: str) -> Iterator[str]:
    yield from (f"# {COMMANDS[name]}", "", _WRITTEN, "", f"Other commands: [{_MAIN}]({_MAIN}).")
    yield from _command(name, _found(name))


def _found(name: str) -> click.Command:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    return command


def _command(name: str, command: click.Command) -> Iterator[str]:
    arguments = [str(one.metavar) for one in command.params if isinstance(one, click.Argument)]
    yield from ("", f"## edgedec {name}", "")
    yield f"`{' '.join(['edgedec', name, '[OPTIONS]', *arguments])}`"
    yield from ("", inspect.cleandoc(command.help or "").replace("\b\n", "").replace("\f\n", ""), "")
    for heading, options in by_heading(command.params).items():
        yield from (f"| {heading.lower()} | meaning |", "|---|---|")
        yield from (row for option in options for row in _option(option))
        yield ""
    yield "```sh"
    yield from (line.strip() for line in (command.epilog or "").splitlines()[2:])
    yield "```"
    if isinstance(command, click.Group):
        context = click.Context(command)
        for part in command.list_commands(context):
            found = command.get_command(context, part)
            assert found is not None
            yield from _command(f"{name} {part}", found)


def _option(option: click.Option) -> Iterator[str]:
    names = ", ".join(option.opts)
    shown = names if option.is_flag else f"{names} {option.metavar or option.type.name.upper()}"
    named = option.show_default
    default = f" Default: `{named if isinstance(named, str) else option.default}`." if named else ""
    needed = " Required." if option.required else ""
    yield f"| `{shown}` | {option.help or ''}{default}{needed} |"


def _slash() -> Iterator[str]:
    yield from ("", "Inside a chat:", "", "| command | meaning |", "|---|---|")
    for name, command in SLASH.items():
        yield f"| `{f'/{name} {command.argument}'.strip()}` | {command.help} |"


def main() -> None:
    """Write the files into the folder that the command line names."""
    for file, text in documents().items():
        with atomic_path(Path(sys.argv[1]) / file) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
