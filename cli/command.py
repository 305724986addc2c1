"""Commands whose options come in groups: ``--help`` shows those that people use, ``--help-all`` all of them.

An option says at its declaration under which heading it stands, and whether it is rare. A command receives
several options as one dataclass; see ``taking``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import MISSING, field, fields
from functools import wraps
from typing import Any, TypeVar, cast

import click

F = TypeVar("F", bound=Callable[..., Any])
OPTIONS = "Options"
"""Heading of options that name none."""
_ALL = "edgedec.help_all"
_MORE = "\f"
"""Parts the text of a command: what follows is for ``--help-all``. It is click's own mark."""
_DECLARED = "option"


class Option(click.Option):
    """An option under a heading; a rare one is shown by ``--help-all`` alone.

    ``help`` may be a function, which is called where the help is shown.
    """

    _told: str | Callable[[], str] | None

    def __init__(self, *args: Any, heading: str = OPTIONS, rare: bool = False, **settings: Any) -> None:
        told: str | Callable[[], str] | None = settings.get("help")
        super().__init__(*args, **{**settings, "help": None if callable(told) else told})
        self.heading, self.rare = heading, rare
        if callable(told):
            self._told = told

    @property
    def help(self) -> str | None:
        """The text of the help."""
        return self._told() if callable(self._told) else self._told

    @help.setter
    def help(self, text: str | None) -> None:
        self._told = text

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Return what stands in brackets behind the help, without the range of a number."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


def option(*names: str, heading: str = OPTIONS, rare: bool = False, **settings: Any) -> Callable[[F], F]:
    """Return the decorator that adds an option; ``settings`` are those of ``click.option``."""
    return click.option(*names, cls=Option, heading=heading, rare=rare, **settings)


class _Text(click.ParamType[str]):
    """A text for a model. Bytes that are not UTF-8 would reach it as others."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not is_utf8(value):
            self.fail("it is not UTF-8 text", param, ctx)
        return str(value)


TEXT = _Text()


def is_utf8(text: str) -> bool:
    """Whether an argument of the command line was UTF-8; Python keeps other bytes as lone surrogates."""
    return not any("\ud800" <= one <= "\udfff" for one in text)


def declared(decorator: Callable[[Any], Any], default: Any = MISSING) -> Any:
    """Return a field of a dataclass whose value is that of an option; its name is that of the parameter.

    ``default`` is for instances that no command line makes.
    """
    return field(default=default, metadata={_DECLARED: decorator})


def taking(**kinds: type[Any]) -> Callable[[F], F]:
    """Add the options of dataclasses to a command, which receives an instance of each by these keywords."""

    def add(command: F) -> F:
        @wraps(command)
        def receiving(*args: Any, **given: Any) -> Any:
            for keyword, kind in kinds.items():
                given[keyword] = kind(**{one.name: given.pop(one.name) for one in fields(kind)})
            return command(*args, **given)

        every = [one for kind in kinds.values() for one in fields(kind)]
        for one in reversed(every):
            receiving = one.metadata[_DECLARED](receiving)
        return cast(F, receiving)

    return add


class Command(click.Command):
    """A command whose help has a section for each heading, and ``--help-all`` where that shows more."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        found = super().get_params(ctx)
        more = _MORE in (self.help or "") or any(is_rare(one) for one in self.params)
        return [*found, _help_all(ctx)] if more else found

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        text = inspect.cleandoc(self.help or "")
        shown = text.replace(_MORE, "") if _all(ctx) else text.partition(_MORE)[0]
        with formatter.indentation():
            formatter.write_paragraph()
            formatter.write_text(shown.strip())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = [one for one in self.get_params(ctx) if _all(ctx) or not is_rare(one)]
        for heading, options in by_heading(shown).items():
            with formatter.section(heading):
                formatter.write_dl([row for one in options if (row := one.get_help_record(ctx))])


def new_command(name: str, *examples: str, **settings: Any) -> Callable[[Callable[..., Any]], Command]:
    """Return the decorator that makes a command; its help ends with the examples, one below the other."""
    return click.command(name, cls=Command, epilog=shown_examples(examples), **settings)


def shown_examples(lines: Iterable[str]) -> str:
    """Return an epilog that shows ``lines`` as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def is_rare(parameter: click.Parameter) -> bool:
    """Whether few people need an option."""
    return isinstance(parameter, Option) and parameter.rare


def by_heading(parameters: list[click.Parameter]) -> dict[str, list[click.Option]]:
    """Return the options among ``parameters`` by heading, in order; those without one come last."""
    found: dict[str, list[click.Option]] = {}
    for one in parameters:
        if isinstance(one, click.Option):
            found.setdefault(one.heading if isinstance(one, Option) else OPTIONS, []).append(one)
    return dict(sorted(found.items(), key=lambda item: item[0] == OPTIONS))


def _all(ctx: click.Context) -> bool:
    return bool(ctx.meta.get(_ALL))


def _help_all(ctx: click.Context) -> click.Option:
    def show(ctx: click.Context, param: click.Parameter, given: bool) -> None:
        if given:
            ctx.meta[_ALL] = True
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()

    return click.Option(
        ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=show,
        help="Show every option, say more, and exit.",
    )  # fmt: skip
