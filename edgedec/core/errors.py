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
└── BackendError              9   the runtime or the kernel library refused to work

A message is one line that says what is wrong; ``hint`` says what would work.
"""

from __future__ import annotations


class EdgeDecError(Exception):
    """Base of all errors shown to users as one line. ``exit_code`` is the process's exit status."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

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
