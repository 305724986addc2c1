"""Reading text from standard input and files, no more of it than a prompt may have.

The context bounds the tokens of a prompt, and the longest token its bytes (see ``Prompts.most_bytes``). Input
beyond that is not read: a file of any size is refused after a few hundred kilobytes.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from edgedec.core.errors import BadFileError, EdgeDecError, NotFoundError, UsageError
from edgedec.core.units import size
from edgedec.session.prompt import Prompts
from edgedec.text.limits import no_lease

STANDARD_INPUT = "-"
MOST_LINES_BYTES = 16_000_000
"""Most bytes of a file of prompts."""
_SKIP_BYTES = 1 << 20
_LEASE_BYTES = 1 << 20
_OBJECT_BYTES = 64
"""Memory of a line beside its text."""


def check_prompt(prompt: str | None) -> None:
    """Raise UsageError if there is no prompt: neither text, nor a file or pipe at standard input."""
    if prompt is None and sys.stdin.isatty():
        raise UsageError(
            "no prompt", hint='as in `edgedec generate "Why is the sky blue?"`, or pipe it to standard input'
        )
    if prompt == "":
        raise _empty()


def check_lines(file: Path) -> None:
    """Raise NotFoundError for a file that cannot be read, UsageError for an empty one; "-" is neither."""
    if str(file) != STANDARD_INPUT and not file.is_fifo():
        with _opened(file) as stream:
            if not stream.read(1):
                raise _no_lines()


def read_prompt(prompt: str | None, prompts: Prompts, *, after_input: bool = False) -> str:
    """Return the prompt; None and "-" read it from standard input.

    With ``after_input`` a file or pipe at standard input comes first, then a blank line and the prompt.
    Raises UsageError for an empty one and for bytes that are not UTF-8, ContextFullError for one that is
    certainly too long.
    """
    if prompt not in (None, STANDARD_INPUT):
        text = _input(prompts) if after_input and _is_fed() else ""
        return f"{text.rstrip()}\n\n{prompt}" if text.strip() else prompt
    text = _input(prompts)
    if not text:
        raise _empty()
    return text


def _input(prompts: Prompts) -> str:
    data = _read(sys.stdin.buffer, prompts)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8 text (byte {error.start})") from error


def _is_fed() -> bool:
    """Return whether standard input is a pipe or a file, not a terminal, a device or a socket."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return not sys.stdin.isatty()
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def piped_turns(prompts: Prompts) -> Iterator[str]:
    """Yield each line of standard input that is not blank. Raises UsageError when it is not UTF-8.

    A line that is too long for a prompt is read until that is certain.
    """
    for number, line in _lines(sys.stdin.buffer, prompts):
        text = _decoded(number, line, "standard input", prompts)
        if text.strip():
            yield text


@dataclass(frozen=True, slots=True)
class PromptLine:
    """A line of a file: its number from 1, its text, and the reason why that is no prompt, if it is none."""

    number: int
    text: str
    error: EdgeDecError | None = None


@contextmanager
def prompt_lines(file: Path, prompts: Prompts) -> Iterator[list[PromptLine]]:
    """Read the lines of ``file`` that are not blank, "-" for standard input; book their memory meanwhile.

    A line that is not UTF-8 has the error, and U+FFFD in its text. One that is too long for a prompt is kept
    until that is certain. Raises NotFoundError, UsageError for no lines or for more than
    ``MOST_LINES_BYTES``, MemoryBudgetError.
    """
    name = "standard input" if str(file) == STANDARD_INPUT else str(file)
    lease = prompts.limits.lease if prompts.limits else no_lease
    found: list[PromptLine] = []
    total = booked = 0
    with ExitStack() as leases, _opened(file) as stream:
        for number, line in _lines(_Bounded(stream, name), prompts):
            total += len(line) + _OBJECT_BYTES
            if total > booked:
                booked += max(_LEASE_BYTES, len(line))
                leases.enter_context(lease(max(_LEASE_BYTES, len(line))))
            one = _prompt_line(number, line, name, prompts)
            if one.text.strip():
                found.append(one)
        if not found:
            raise _no_lines()
        yield found


def _prompt_line(number: int, line: bytes, name: str, prompts: Prompts) -> PromptLine:
    try:
        return PromptLine(number, _decoded(number, line, name, prompts))
    except EdgeDecError as error:
        return PromptLine(number, line.decode("utf-8", "replace"), error)


def _no_lines() -> UsageError:
    return UsageError("there is no prompt", hint="put one on each line")


def _empty() -> UsageError:
    return UsageError("the prompt is empty", hint="give some text, in quotes or on standard input")


def _read(stream: BinaryIO, prompts: Prompts) -> bytes:
    limits = prompts.limits
    if limits is None:
        return stream.read()
    data = stream.read(limits.most_tokens + 1)
    if len(data) > limits.most_tokens:  # only now is the longest token looked for
        most = prompts.most_bytes() or 0
        data += stream.read(most + 1 - len(data))
        if len(data) > most:
            raise limits.error()
    return data


class _LineStream(Protocol):
    def readline(self, most: int = -1, /) -> bytes: ...


class _Bounded:
    """A stream of which at most ``MOST_LINES_BYTES`` are read; UsageError for more."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._left = MOST_LINES_BYTES

    def readline(self, most: int = -1, /) -> bytes:
        line = self._stream.readline(most if most >= 0 else self._left + 1)
        self._left -= len(line)
        if self._left < 0:
            hint = "split it into several files"
            raise UsageError(f"{self._name} has more than {size(MOST_LINES_BYTES)} of prompts", hint=hint)
        return line


def _lines(stream: _LineStream, prompts: Prompts) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each line, without the newline, cut where it is certainly too long."""
    number = 0
    while line := _line(stream, prompts):
        number += 1
        yield number, line.rstrip(b"\r\n") if line.endswith(b"\n") else line
        while line and not line.endswith(b"\n"):
            line = stream.readline(_SKIP_BYTES)


def _line(stream: _LineStream, prompts: Prompts) -> bytes:
    limits = prompts.limits
    if limits is None:
        return stream.readline()
    line = stream.readline(limits.most_tokens + 1)
    if len(line) > limits.most_tokens and not line.endswith(b"\n"):
        most = prompts.most_bytes() or 0
        line += stream.readline(most + 1 - len(line))
    return line


def _decoded(number: int, line: bytes, name: str, prompts: Prompts) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        if prompts.limits and len(line) > (prompts.most_bytes() or 0):  # cut inside of a character
            return line.decode("utf-8", "replace")
        kind = UsageError if name == "standard input" else BadFileError
        raise kind(f"line {number} of {name} is not UTF-8 text") from error


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    if str(file) == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    try:
        stream = file.open("rb")
    except OSError as error:
        raise NotFoundError(f"{file} cannot be read: {error.strerror}", hint="name a text file") from error
    with stream:
        yield stream
