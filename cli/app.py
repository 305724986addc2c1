"""The ``edgedec`` command. A subcommand is imported when it is called, so that each starts quickly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from edgedec.cli import screen
from edgedec.cli.early import import_numpy, leave_at_once, raise_again
from edgedec.cli.errors import ReaderGone, Terminated, one_line_errors
from edgedec.cli.interrupts import terminated, terminations_interrupt
from edgedec.cli.subcommands import SubcommandGroup
from edgedec.core.errors import UsageError
from edgedec.core.version import __version__

COMMANDS = {
    "chat": "Talk with a model.",
    "run": "Another name of chat.",
    "generate": "Answer one prompt, or continue a text.",
    "batch": "Answer many prompts, or one many times, several in each pass.",
    "embed": "Turn texts into vectors.",
    "serve": "Serve models to OpenAI clients and on a page.",
    "pull": "Fetch a model and prepare it.",
    "default": "Show or choose the model of commands that name none.",
    "list": "Show the models that are installed, and those that can be pulled.",
    "show": "Say everything about one model, installed or not.",
    "rm": "Remove installed models.",
    "clean": "Show and remove files that are kept beside the models.",
    "export": "Turn a GGUF file or Hugging Face model into a bundle.",
    "push": "Send a device's folder to a phone.",
    "web": "Serve a folder that runs a model in the browser.",
    "check": "Say whether one model can draft for another.",
    "draft": "Make drafters for a model out of its own replies.",
    "plan": "Say what fits into how much memory.",
    "doctor": "Examine this machine, its kernels and the installed models.",
    "bench": "Measure speed, memory and accuracy.",
}
"""One-line help by name, in the order of ``edgedec --help``. A command is in the module of its name."""

ALIASES = {"run": "chat", "ls": "list"}
"""Other names of commands."""
OTHERS = {
    "ask": "generate", "complete": "generate", "convert": "export", "create": "export", "delete": "rm",
    "download": "pull", "info": "show", "install": "pull", "measure": "bench report",
    "models": "list", "remove": "rm", "search": "list", "server": "serve", "switch": "bench switch",
    "uninstall": "rm", "webui": "web",
}  # fmt: skip
"""Commands of other programs and of before, and those here that do the same."""
NOWHERE = {
    "ps": ("no model stays in memory when its command has ended", ""),
    "stop": ("no model stays in memory when its command has ended", ""),
}
"""Commands of other programs that nothing here does: the reason, and what to do instead."""


@contextmanager
def _kept_from_click() -> Iterator[None]:
    """Replace exceptions from which click would make lines and statuses of its own."""
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGone from error
    except KeyboardInterrupt as error:
        if terminated():
            raise Terminated from error
        raise


@contextmanager
def _left_at_once() -> Iterator[None]:
    """Inside, Ctrl-C ends the process: an import has nothing to clean up, and may print it."""
    leave_at_once()
    try:
        yield
    finally:
        raise_again()


class LazyGroup(SubcommandGroup):
    """A group that imports ``edgedec.cli.NAME`` for its command NAME, and shows errors as one line."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "help":
            return help_command
        name = ALIASES.get(cmd_name, cmd_name)
        with _left_at_once():
            if name == "chat":  # its module imports what NumPy is for; other commands do later (opening.py)
                import_numpy()
            return super().get_command(ctx, name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Raises UsageError with the names that are near."""
        if args and args[0] not in {*COMMANDS, *ALIASES, "help"} and not args[0].startswith("-"):
            raise _unknown(args[0])
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _kept_from_click():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _kept_from_click():
            return super().invoke(ctx)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        with one_line_errors(), terminations_interrupt():
            status = super().main(*args, **{**kwargs, "standalone_mode": False})
        raise SystemExit(status if isinstance(status, int) else 0)


def _unknown(name: str) -> UsageError:
    from edgedec.models.names import hub_file, near, recipe_name

    every = "`edgedec --help` shows all"
    if recipe_name(name) or (" " not in name and hub_file(name)):
        return UsageError(f"{name} is a model, not a command", hint=f"as in `edgedec chat {name}`; {every}")
    if any(map(str.isspace, name)):
        return UsageError("a prompt is no command", hint='as in `edgedec generate "Why is the sky blue?"`')
    if name in NOWHERE:
        why, instead = NOWHERE[name]
        return UsageError(f"no command named {name!r}: {why}", hint=instead + every)
    similar = [OTHERS[name]] if name in OTHERS else near(name, COMMANDS)
    meant = f"did you mean {' or '.join(similar)}? " if similar else ""
    return UsageError(f"no command named {name!r}", hint=meant + every)


@click.command("help", hidden=True, add_help_option=False)
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a command."""
    with app.make_context("edgedec", [*words, "--help"]) as named:
        app.invoke(named)


app = LazyGroup(
    "edgedec",
    package="edgedec.cli",
    subcommands=COMMANDS,
    help="Run language models on this machine, exactly and in bounded memory.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Models are kept in EDGEDEC_HOME (default: the user's cache directory). EDGEDEC_ISA forces a"
    " kernel row, EDGEDEC_DEBUG=1 shows tracebacks.",
)
click.version_option(__version__, prog_name="edgedec")(app)


def run() -> None:
    """Run the command line of this process; never returns."""
    screen.prepare_streams()
    app.main(prog_name="edgedec")
