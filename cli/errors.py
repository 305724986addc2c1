"""End the command line after an error: one line on standard error, and an exit status.

EdgeDecError            its own status (see edgedec.core.errors)
bad command line        2
out of memory           9
disk full               7
other system error      1
interrupted             130
terminated              143
reader gone             141, quietly
anything else           70; ``EDGEDEC_DEBUG=1`` shows the traceback, of every kind of error
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from edgedec.cli import screen
from edgedec.cli.early import INTERRUPTED, MEMORY_WORDS, OUT_OF_MEMORY, leave_at_once, raise_again
from edgedec.cli.interrupts import terminated
from edgedec.cli.remedies import ELSEWHERE, GONE, hint_of
from edgedec.core.errors import BackendError, EdgeDecError, StorageError
from edgedec.disk.files import DISK_FULL

BROKEN_PIPE = 141
TERMINATED = 143
INTERNAL = 70
_NO_MEMORY = b"error: not enough memory (a smaller --context or a smaller model needs less)\n"


class ReaderGone(Exception):  # noqa: N818 - it is no error
    """A broken pipe under a name that click does not turn into an exit status of its own."""


class Terminated(BaseException):
    """SIGTERM as an exception that click does not take for Ctrl-C."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """End the process with the status of the error raised inside, after its one line."""
    end = leave_at_once if raise_again() else lambda: None
    try:
        yield
        sys.stdout.flush()
        end()
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except (BrokenPipeError, ReaderGone):
        _discard_output()
        sys.exit(BROKEN_PIPE)
    except (KeyboardInterrupt, click.Abort, Terminated):
        end()
        if terminated():
            show("terminated")
            sys.exit(TERMINATED)
        sys.exit(INTERRUPTED)
    except Exception as error:  # the one place that may: whatever it is, the user gets a line and a status
        if os.environ.get("EDGEDEC_DEBUG"):
            from traceback import format_exception

            click.echo("".join(format_exception(error)), err=True, nl=False)
        end()
        hidden = error.__cause__ or error.__context__
        # A C library hides Ctrl-C in an error of its import, Python before 3.12 in one of a class being made.
        if isinstance(error, ImportError | RuntimeError) and isinstance(hidden, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        try:
            message, hint, status = explain(error)
            show(message, hint)
        except MemoryError:  # not even for the line's words
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, _NO_MEMORY)
            status = OUT_OF_MEMORY
        sys.exit(status)


def show(message: str, hint: str | None = None) -> None:
    """Show one line on standard error, the hint in parentheses; a terminal gets it red, in whole words."""
    line = f"error: {_one_line(message)}"
    shown = screen.fitted(f"{line} ({_one_line(hint)})" if hint else line)
    red = click.style(shown[: len(line)], fg="red")  # line ends take the places of spaces
    with suppress(OSError):  # nothing can be said; the status says it
        click.echo(red + shown[len(line) :], err=True, color=screen.colours())


def explain(error: Exception) -> tuple[str, str | None, int]:
    """Return message, hint and exit status for any exception."""
    if isinstance(error, EdgeDecError):
        return error.message, hint_of(error), error.exit_code
    if isinstance(error, click.NoSuchOption) and (instead := _instead(error)):
        return f"no such option: {error.option_name}", instead, 2
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "edgedec"
        return error.format_message().rstrip("."), f"see `{command} --help`", 2
    if isinstance(error, click.ClickException):
        return error.format_message(), None, error.exit_code
    if _is_memory(error):
        return "not enough memory", "a smaller --context or a smaller model needs less", OUT_OF_MEMORY
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        if not where and error.errno in DISK_FULL:  # all other files are written by a name
            where = ": standard output"
        status = StorageError.exit_code if error.errno in DISK_FULL else EdgeDecError.exit_code
        return f"{error.strerror or error}{where}", None, status
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        return "the name of a file or a folder is not UTF-8", "rename it", EdgeDecError.exit_code
    if isinstance(error, ImportError) and "DLL load failed" in str(error):  # as on Windows
        return str(error), "install Microsoft's Visual C++ Redistributable", BackendError.exit_code
    return f"internal error: {type(error).__name__}: {error}", "EDGEDEC_DEBUG=1 shows where", INTERNAL


def _instead(error: click.NoSuchOption) -> str | None:
    """Return the words for what does the same as an option of this name would do, if anything does."""
    from edgedec.cli.sampling_options import in_place_of

    command = str(error.ctx.command.name) if error.ctx else ""
    if words := ELSEWHERE.get((command, error.option_name)):
        return words
    instead = GONE.get(error.option_name) or in_place_of(error.option_name)
    known = [name for one in error.ctx.command.params for name in one.opts] if error.ctx else []
    return f"give {instead}" if instead and instead.split()[0] in known else None


def _is_memory(error: Exception) -> bool:
    """Return whether memory ran out; C++, the loader and ONNX Runtime say it in words only."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    return isinstance(error, ImportError | RuntimeError) and any(word in str(error) for word in MEMORY_WORDS)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _discard_output() -> None:
    # The interpreter flushes stdout once more at exit; give it somewhere to go.
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
