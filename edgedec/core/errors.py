"""Errors that a user can meet, and the settings that would mend them.

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
│   └── DeviceLostError       9   a GPU went away, or does not answer any more
├── MemoryBudgetError         10  it does not fit the memory that it may take
├── SideLost                  11  a model elsewhere is lost
└── GrammarError              12  a reply is not of the form that was asked for

An error has a message of one line, which says what is wrong, and a hint, which says how to mend it.
Both name settings in plain words, because a library does not know which options its program has.
Its remedies say the same to a program, which can word them for its user (``edgedec.cli.errors`` does).

Names and texts out of a file are made printable and cut before they are shown: they must not steer the
terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Literal, Self

from edgedec.core.quick_dataclass import dataclass

_MOST_CHARS = 1000

RemedyName = Literal[
    "memory",  # bytes: allow at least so many; None: set no bound
    "context",  # tokens: a context of at least so many; None: a larger one
    "shorter_context",  # None: a smaller context
    "threads",  # at most so many
    "kv",  # the type of the KV cache; None: the default
    "draft",  # the drafter to choose
    "objective",  # None: the default
    "history",  # None: do not keep drafts between runs
    "when_full",  # the policy for a full context; None: stop there
    "conversations",  # at most so many in one batch; None: one
    "stop",  # None: no stop strings
    "quant",  # None: no quantisation
    "raw",  # None: use no chat template
    "model",  # the model to open; None: a smaller one
    "pull",  # the model to pull
    "rollouts",  # the model that has to answer prompts first
    "known_model",  # None: see the list of models
    "for",  # the device to export the model for
    "embed",  # None: make vectors with the model
    "export",  # None: export the model for EdgeDec's own kernels
    "without_bandwidth",  # None: do not measure the memory bandwidth
    "gpu",  # None: run the model on a GPU
    "device_memory",  # bytes: allow at least so many on the GPU; None: set no bound
    "gpu_layers",  # at most so many on the GPU; None: all
    "context_weight",  # none
    "save",  # None: save the conversation first
]


@dataclass(frozen=True, slots=True)
class Remedy:
    """Name a setting or an action that mends an error, and a value that works.

    The names, and the meaning of their values, are those of ``RemedyName``.

    >>> Remedy("memory", 300_000_000)
    Remedy(name='memory', value=300000000)
    """

    name: RemedyName
    value: int | str | None = None


def one_line(text: str) -> str:
    """Return ``text`` on one line of at most 1000 characters, with U+FFFD for characters that do not print.

    A longer text loses its middle.
    """
    line = "".join(char if char.isprintable() else "\ufffd" for char in " ".join(text.split()))
    return line if len(line) <= _MOST_CHARS else f"{line[:700]} ... {line[-200:]}"


class EdgeDecError(Exception):
    """Base of all errors that are shown to users as one line.

    ``exit_code`` is the exit status of a process that ends with it. ``remedies`` are alternatives: each of
    them mends the error.
    """

    exit_code = 1

    def __init__(
        self, message: str, *, hint: str | None = None, remedy: Remedy | tuple[Remedy, ...] = ()
    ) -> None:
        self.message = one_line(message)
        self.hint = None if hint is None else one_line(hint)
        self.remedies = (remedy,) if isinstance(remedy, Remedy) else remedy
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def reworded(self, message: str) -> Self:
        """Return the same error, hint and remedies with another message."""
        other = copy(self)
        other.message = one_line(message)
        other.args = (other.message,)
        return other


class UsageError(EdgeDecError):
    exit_code = 2


class NotFoundError(EdgeDecError):
    """``near`` has the names that may have been meant, best first."""

    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        remedy: Remedy | tuple[Remedy, ...] = (),
        near: Sequence[str] = (),
    ) -> None:
        self.near = tuple(near)
        super().__init__(message, hint=hint, remedy=remedy)

    def __str__(self) -> str:
        hint = self.meant(self.hint)
        return f"{self.message} ({hint})" if hint else self.message

    def meant(self, hint: str | None) -> str | None:
        """Return ``hint`` behind the names that are near."""
        names = f"did you mean {one_line(', '.join(self.near))}?" if self.near else None
        return " ".join(part for part in (names, hint) if part) or None


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


class DeviceLostError(BackendError):
    """A GPU that went away or does not answer. Its buffers are gone; the committed tokens are not."""

    replaced = False
    """Whether the forward goes on elsewhere, with an empty cache: feed it the tokens again."""


class MemoryBudgetError(EdgeDecError):
    exit_code = 10


class SideLost(EdgeDecError):  # noqa: N818 - its holder goes on without the side
    """A model elsewhere that cannot be reached, is too slow, or answers nonsense; the message says which."""

    exit_code = 11


class GrammarError(EdgeDecError):
    """A reply that was cut before it had the form that was asked for, or a form too complex to go on with."""

    exit_code = 12
