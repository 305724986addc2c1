"""Output to the user, without characters that a terminal would obey."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import click

from edgedec.core.errors import StorageError
from edgedec.disk.files import DISK_FULL
from edgedec.system.process import PIPED

_WINDOW = 80, 24
"""Columns and rows of a window that does not say."""
_LEAST_CELLS = 24
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def prepare_streams() -> None:
    """Replace standard streams that are closed, and let standard output replace characters it lacks."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            if name == "stdout":  # the null device takes the descriptor, too
                sys.stdout = _Closed(open(os.devnull, "wb"), encoding="utf-8")  # noqa: SIM115
            else:
                setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    if sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _Aside(sys.stderr)
    if isinstance(sys.stdout, io.TextIOWrapper):  # standard error escapes such characters by itself
        sys.stdout.reconfigure(encoding=PIPED, errors="replace")
    if isinstance(sys.stdin, io.TextIOWrapper) and PIPED:
        sys.stdin.reconfigure(encoding=PIPED)


class _Closed(io.TextIOWrapper):
    """Standard output that is closed: what is written there would be lost."""

    def write(self, text: str) -> int:
        if text:
            raise StorageError("standard output is closed", hint="leave it open, or send it to /dev/null")
        return 0


class _Aside:
    """Standard error, whose lines are beside the work: where they cannot be written, the work goes on."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with _unless_full():
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with _unless_full():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _unless_full() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise


def show_json(document: object) -> None:
    """Write one line of JSON; characters that the output's encoding may lack are escaped."""
    plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    click.echo(json.dumps(document, ensure_ascii=plain))


def colours() -> bool | None:
    """Return False where the user wants no colours (https://no-color.org, dumb terminals), else None.

    None leaves the choice to click: terminals get colours.
    """
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


def window(stream: TextIO) -> tuple[int, int]:
    """Return columns and rows of the terminal behind ``stream``."""
    try:
        columns, rows = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        columns = rows = 0
    return columns or _WINDOW[0], rows or _WINDOW[1]


def dim(line: str) -> None:
    """Show a line beside the conversation: on standard error, dim on a terminal."""
    click.secho(line, dim=True, err=True, color=colours())


def aside(text: str, *, indent: int = 2) -> None:
    """Show text beside the conversation, on a terminal with its words wrapped and later rows indented."""
    dim(fitted(text, indent=indent))


def fitted(text: str, *, indent: int = 0) -> str:
    """Return text for standard error: where that is a terminal, wrapped at spaces to its width."""
    if not sys.stderr.isatty():
        return text
    import textwrap

    return textwrap.fill(
        text,
        max(window(sys.stderr)[0] - 1, 20),
        replace_whitespace=False,
        break_on_hyphens=False,
        break_long_words=False,
        subsequent_indent=" " * indent,
    )


def pairs(lines: Sequence[tuple[str, str]], *, least: int = _LEAST_CELLS) -> None:
    """Show names, each with its text, in two columns.

    Where the window leaves fewer than ``least`` cells for texts, each follows its name instead.
    """
    widest = max(len(name) for name, _ in lines) + 2
    columns = not sys.stderr.isatty() or window(sys.stderr)[0] - 1 - widest >= least
    for name, text in lines:
        if columns:
            aside(f"{name:<{widest}}{text}", indent=widest)
        else:
            aside(f"{name}  {text}" if name else f"    {text}", indent=4)


def printable(text: str) -> str:
    """Return ``text`` on one line, without control characters."""
    return _CONTROL.sub("", text).replace("\n", "\\n").replace("\t", "\\t")


def harmless(text: str) -> str:
    """Return ``text`` without the control characters that a terminal obeys; newlines and tabs stay."""
    return _CONTROL.sub("", text)


def show_painted(piece: str, paint: Callable[[str], str]) -> None:
    """Write a piece of a reply to a terminal in colour; its text cannot change the colours."""
    sys.stdout.write(paint(harmless(piece)))
    sys.stdout.flush()


def show(piece: str) -> None:
    """Write a piece of a reply at once.

    A terminal obeys control characters, and a prompt can make a model write any. So a terminal gets none but
    newline and tab. A pipe gets the text as it is.
    """
    sys.stdout.write(harmless(piece) if sys.stdout.isatty() else piece)
    sys.stdout.flush()


def stream(pieces: Iterable[str], show_piece: Callable[[str], None], *, ends_line: bool = False) -> None:
    """Show the pieces of a reply as they come, and end its last line; ``ends_line``: the cursor is at one."""
    try:
        for piece in pieces:
            show_piece(piece)
            ends_line = piece.endswith("\n") if piece else ends_line
    finally:
        if not ends_line:
            click.echo()


def hanging(head: str, text: str, width: int) -> str:
    """Return text behind ``head``, wrapped at ``width`` columns below itself; addresses stay whole."""
    import textwrap

    return textwrap.fill(
        text,
        width,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
