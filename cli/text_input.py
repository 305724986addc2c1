"""Reading text from standard input and files, no more of it than a prompt may have.

The context bounds the tokens of a prompt, and the longest token its bytes (see ``Prompts.most_bytes``). Input
beyond that is not read: a file of any size is refused after a few hundred kilobytes.
"""

from __future__ import annotations

import itertools
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from edgedec.core.errors import BadFileError, EdgeDecError, NotFoundError, UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import size
from edgedec.text.limits import TextLimits

if TYPE_CHECKING:
    from edgedec.session.prompt import Prompts

STANDARD_INPUT = "-"
MOST_LINES_BYTES = 16_000_000
"""Most bytes of a file of prompts."""
MOST_LONG_BYTES = 4_000_000
"""Most bytes of a prompt that is made shorter: about a million tokens."""
_SKIP_BYTES = 1 << 20


class Unbounded:
    """Bounds for a prompt whose tokens are counted elsewhere: none; others are ``session.prompt.Prompts``."""

    limits: TextLimits | None = None

    def most_bytes(self) -> int | None:
        return None


class LongText(Unbounded):
    """Bounds for a prompt that is made shorter before its tokens are counted."""

    def most_bytes(self) -> int | None:
        return MOST_LONG_BYTES


def check_prompt(prompt: str | None) -> None:
    """Raise UsageError if there is no prompt: neither text, nor a file or pipe at standard input."""
    if prompt is None and sys.stdin.isatty():
        raise UsageError(
            "no prompt", hint='as in `edgedec generate "Why is the sky blue?"`, or pipe it to standard input'
        )
    if prompt == "":
        raise _empty()


def read_prompt(prompt: str | None, prompts: Prompts | Unbounded, *, after_input: bool = False) -> str:
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


def _input(prompts: Prompts | Unbounded) -> str:
    data = _read(sys.stdin.buffer, prompts)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8 text (byte {error.start})") from error


def _is_fed() -> bool:
    """Return whether standard input is a pipe or a file, not a terminal, a device or a socket."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return not sys.stdin.isatty()
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def piped_turns(prompts: Prompts | Unbounded) -> Iterator[str]:
    """Yield each line of standard input that is not blank. Raises UsageError when it is not UTF-8.

    A line that is too long for a prompt is read until that is certain.
    """
    for number, line in _lines(sys.stdin.buffer, prompts):
        text = _decoded(number, line, "standard input", prompts.most_bytes() or MOST_LINES_BYTES)
        if text.strip():
            yield text


@dataclass(frozen=True, slots=True)
class PromptLine:
    """A line of a file: its number from 1, its text, and the reason why that is no prompt, if it is none."""

    number: int
    text: str
    error: EdgeDecError | None = None


def prompt_lines(file: Path) -> list[PromptLine]:
    """Read the lines of ``file`` that are not blank, "-" for standard input.

    Before a model is opened: its memory plan counts them with the process. A line that is not UTF-8 has the
    error, and U+FFFD in its text. Raises NotFoundError, UsageError for no lines or for more than
    ``MOST_LINES_BYTES``.
    """
    name = "standard input" if str(file) == STANDARD_INPUT else str(file)
    left = MOST_LINES_BYTES
    found: list[PromptLine] = []
    with _opened(file) as stream:
        for number in itertools.count(1):
            line = stream.readline(left + 1)
            if not line:
                break
            left -= len(line)
            if left < 0:
                hint = "split it into several files"
                raise UsageError(f"{name} has more than {size(MOST_LINES_BYTES)} of prompts", hint=hint)
            one = _prompt_line(number, line.rstrip(b"\r\n") if line.endswith(b"\n") else line, name)
            if one.text.strip():
                found.append(one)
    if not found:
        raise UsageError("there is no prompt", hint="put one on each line")
    return found


def _prompt_line(number: int, line: bytes, name: str) -> PromptLine:
    try:
        return PromptLine(number, _decoded(number, line, name))
    except EdgeDecError as error:
        return PromptLine(number, line.decode("utf-8", "replace"), error)


def _empty() -> UsageError:
    return UsageError("the prompt is empty", hint="give some text, in quotes or on standard input")


def _read(stream: BinaryIO, prompts: Prompts | Unbounded) -> bytes:
    limits = prompts.limits
    if limits is None:
        most = prompts.most_bytes()
        data = stream.read() if most is None else stream.read(most + 1)
        if most is not None and len(data) > most:
            raise UsageError(f"the prompt has more than {size(most)}", hint="shorten it")
        return data
    data = stream.read(limits.most_tokens + 1)
    if len(data) > limits.most_tokens:  # only now is the longest token looked for
        most = prompts.most_bytes() or 0
        data += stream.read(most + 1 - len(data))
        if len(data) > most:
            raise limits.error()
    return data


def _lines(stream: BinaryIO, prompts: Prompts | Unbounded) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each line, without the newline, cut where it is certainly too long."""
    number = 0
    while line := _line(stream, prompts):
        number += 1
        yield number, line.rstrip(b"\r\n") if line.endswith(b"\n") else line
        while line and not line.endswith(b"\n"):
            line = stream.readline(_SKIP_BYTES)


def _line(stream: BinaryIO, prompts: Prompts | Unbounded) -> bytes:
    limits = prompts.limits
    if limits is None:
        return stream.readline()
    line = stream.readline(limits.most_tokens + 1)
    if len(line) > limits.most_tokens and not line.endswith(b"\n"):
        most = prompts.most_bytes() or 0
        line += stream.readline(most + 1 - len(line))
    return line


def _decoded(number: int, line: bytes, name: str, most_bytes: int = MOST_LINES_BYTES) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        if len(line) > most_bytes:  # cut inside of a character
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
