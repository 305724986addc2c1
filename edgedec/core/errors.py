"""Every error a user can meet.

EdgeDecError                  exit code 1
├── UsageError                2   the command line or an argument is wrong
├── NotFoundError             3   a model, file or recipe that does not exist
├── BadFileError              4   a file is truncated, hostile, or fails its hash
│   └── TemplateError         4   the chat template is broken (names the line)
├── UnsupportedError          5   an architecture, tensor type or capability we do not have
├── DownloadError             6   a source could not be fetched
├── StorageError              7   disk full, no permission
├── ContextFullError          8   prompt or reply does not fit the context
├── BackendError              9   the runtime or the kernel library refused to work
└── MemoryBudgetError         10  it does not fit the memory that it may take

A message is one line that says what is wrong; ``hint`` says what would work. What a file brings into a
message (names, a library's words) is made printable and cut: it must not speak to the terminal.
"""

from __future__ import annotations

_MOST_CHARS = 1000


def one_line(text: str) -> str:
    """``text`` with single spaces, U+FFFD for what cannot be printed, and its middle cut out if very long."""
    line = "".join(char if char.isprintable() else "\ufffd" for char in " ".join(text.split()))
    return line if len(line) <= _MOST_CHARS else f"{line[:700]} ... {line[-200:]}"


class EdgeDecError(Exception):
    """Base of all errors shown to users as one line. ``exit_code`` is the process's exit status."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = one_line(message)
        self.hint = None if hint is None else one_line(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(EdgeDecError):
    exit_code = 2


class NotFoundError(EdgeDecError):
    exit_code = 3


class BadFileError(EdgeDecError):
    exit_code = 4


class TemplateError(BadFileError):
    """A chat template that does not compile or render; the message names the template line."""


class UnsupportedError(EdgeDecError):
    exit_code = 5


class DownloadError(EdgeDecError):
    exit_code = 6


class StorageError(EdgeDecError):
    exit_code = 7


class ContextFullError(EdgeDecError):
    exit_code = 8


class BackendError(EdgeDecError):
    exit_code = 9


class MemoryBudgetError(EdgeDecError):
    exit_code = 10
