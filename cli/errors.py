"""How the command line ends when something goes wrong: one line on standard error, and an exit status.

EdgeDecError            its own status (see edgedec.core.errors)
bad command line        2
out of memory           9
disk full               7
other system error      1
interrupted             130
reader gone             141, quietly
anything else           70; ``EDGEDEC_DEBUG=1`` shows the traceback, of every kind of error
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import click

from edgedec.cli import screen
from edgedec.cli.remedies import hint_of
from edgedec.core.errors import EdgeDecError, StorageError
from edgedec.core.files import DISK_FULL

INTERRUPTED = 130
BROKEN_PIPE = 141
INTERNAL = 70


class ReaderGone(Exception):  # noqa: N818 - it is no error
    """A broken pipe, kept from click, which would make an exit status of its own from it."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """End the process with the status of the error raised inside, after its one line."""
    try:
        yield
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except (BrokenPipeError, ReaderGone):
        _discard_output()
        sys.exit(BROKEN_PIPE)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(INTERRUPTED)
    except Exception as error:  # the one place that may: whatever it is, the user gets a line and a status
        if os.environ.get("EDGEDEC_DEBUG"):
            click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
        message, hint, status = explain(error)
        show(message, hint)
        sys.exit(status)


def show(message: str, hint: str | None = None) -> None:
    """One line on standard error, red on a terminal, with the hint in parentheses."""
    line = click.style(f"error: {_one_line(message)}", fg="red")
    click.echo(f"{line} ({_one_line(hint)})" if hint else line, err=True, color=screen.colours())


def explain(error: Exception) -> tuple[str, str | None, int]:
    """(message, hint, exit status) for any exception."""
    if isinstance(error, EdgeDecError):
        return error.message, hint_of(error), error.exit_code
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "edgedec"
        return error.format_message().rstrip("."), f"see `{command} --help`", 2
    if isinstance(error, click.ClickException):
        return error.format_message(), None, error.exit_code
    if isinstance(error, MemoryError):
        return "not enough memory", "a smaller --context or a smaller model needs less", 9
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        status = StorageError.exit_code if error.errno in DISK_FULL else EdgeDecError.exit_code
        return f"{error.strerror or error}{where}", None, status
    return f"internal error: {type(error).__name__}: {error}", "EDGEDEC_DEBUG=1 shows where", INTERNAL


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _discard_output() -> None:
    # The interpreter flushes stdout once more at exit; give it somewhere to go.
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
