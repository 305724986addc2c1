"""Groups of subcommands, each in a module of its own that is imported when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class SubcommandGroup(click.Group):
    """Imports ``package.NAME``, which has a ``command``, when its subcommand NAME is called.

    ``subcommands`` has one line of help by name, in the order of the help. Without a name all help is shown.
    """

    def __init__(self, name: str, *, package: str, subcommands: Mapping[str, str], **settings: Any) -> None:
        super().__init__(name, invoke_without_command=True, callback=_show_help, **settings)
        self._package, self._subcommands = package, subcommands

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._subcommands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._subcommands:
            return None
        module = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        found = import_module(f"{self._package}.{module}").command
        assert isinstance(found, click.Command)
        return found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command without importing any."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem

        known = self._subcommands.items()
        return [CompletionItem(name, help=text) for name, text in known if name.startswith(incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._subcommands.items()))


@click.pass_context
def _show_help(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
