"""Groups of subcommands, each in a module of its own that is imported when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from edgedec.core.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Subcommand:
    """The module that has its ``command``, and one line of help."""

    module: str
    help: str


class SubcommandGroup(click.Group):
    """Imports a subcommand when it is called. ``subcommands`` are in the order of the help."""

    def __init__(self, *args: Any, subcommands: Mapping[str, Subcommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._subcommands = subcommands

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._subcommands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._subcommands:
            return None
        found = import_module(self._subcommands[cmd_name].module).command
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.help) for name, one in self._subcommands.items()])
