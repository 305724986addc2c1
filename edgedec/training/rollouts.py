"""Replies of a target as token ids, in a file that only grows.

The first line of the file states the target. Every other line is one reply as JSON. A process that is killed
leaves at most half a line at the end, which nobody reads and the next writer removes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from edgedec.bundle.drafter_manifest import Target
from edgedec.core.errors import BadFileError
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import storage_errors
from edgedec.disk.home import ROLLOUTS
from edgedec.disk.locks import exclusive

FILE = "rollouts.jsonl"
HELD_OUT_OF = 20
"""One in so many prompts is held out: nothing is made of its replies, they only measure."""

_FORMAT = "edgedec-rollouts"
_VERSION = 1
_KEY_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Rollout:
    """One reply of the target: token ids of its prompt and of the reply, the end token included.

    ``key`` is the hash of the prompt's text. ``greedy``: no token was drawn by chance.
    """

    prompt: list[int]
    reply: list[int]
    key: str
    greedy: bool

    @property
    def held_out(self) -> bool:
        """Whether it is only for measuring."""
        return int(self.key, 16) % HELD_OUT_OF == 0


def key_of(prompt_text: str) -> str:
    """Return the hash of a prompt's text."""
    return hashlib.sha256(prompt_text.encode()).hexdigest()[:_KEY_DIGITS]


def held_out(prompt_text: str) -> bool:
    """Return whether replies to this prompt are only for measuring."""
    return int(key_of(prompt_text), 16) % HELD_OUT_OF == 0


def rollouts_folder(home: Path, target: Target) -> Path:
    """Return the folder for the replies of ``target``."""
    return home / ROLLOUTS / target.short_hash


class RolloutStore:
    """The replies in a folder; iterate over it as often as needed, also while another process adds some."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / FILE

    def __iter__(self) -> Iterator[Rollout]:
        """Yield all replies, oldest first. Raises BadFileError for a damaged file."""
        for number, line in enumerate(self._lines(), 1):
            if number > 1:
                yield self._rollout(line, number)

    def chosen(self, *, held_out: bool) -> Iterator[Rollout]:
        """Yield the replies that are for measuring, or all others."""
        return (one for one in self if one.held_out == held_out)

    def target(self) -> Target | None:
        """Return the target that all replies are of; None for an empty folder. Raises BadFileError."""
        first = next(self._lines(), None)
        if first is None:
            return None
        try:
            header = json.loads(first)
            if (header["format"], header["version"]) != (_FORMAT, _VERSION):
                raise ValueError(header["format"])
            return Target(**header["target"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise self._damaged(1) from error

    @contextmanager
    def writing(self, target: Target, waiting: Callable[[], None] = lambda: None) -> Iterator[RolloutWriter]:
        """Open the file to add replies of ``target``; alone, after ``waiting`` for another writer.

        Raises BadFileError for a damaged file or one of another target, StorageError.
        """
        with storage_errors(str(self._file)), exclusive(self.folder / f"{FILE}.lock", waiting):
            found = self.target()
            if found is not None and found != target:
                raise BadFileError(
                    f"{self.folder} holds replies of {found.name}, not of {target.name}",
                    hint="remove that folder",
                )
            with self._file.open("ab", buffering=0) as stream:
                stream.truncate(sum(map(len, self._lines())))
                stream.seek(0, 2)
                if found is None:
                    header = {"format": _FORMAT, "version": _VERSION, "target": asdict(target)}
                    stream.write(_line(header))
                yield RolloutWriter(stream, self)

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines that are whole, newline included."""
        try:
            stream = self._file.open("rb")
        except FileNotFoundError:
            return
        with stream:
            yield from (line for line in stream if line.endswith(b"\n"))

    def _rollout(self, line: bytes, number: int) -> Rollout:
        try:
            found = Rollout(**json.loads(line))
            int(found.key, 16)
            if not all(type(token) is int for ids in (found.prompt, found.reply) for token in ids):
                raise ValueError("a token is no number")
        except (ValueError, TypeError, RecursionError) as error:
            raise self._damaged(number) from error
        return found

    def _damaged(self, number: int) -> BadFileError:
        return BadFileError(
            f"{self._file} is damaged in line {number}", hint="remove it, and gather replies again"
        )


class RolloutWriter:
    """Adds replies to a store. ``replies`` and ``tokens`` count all that it holds."""

    def __init__(self, stream: BinaryIO, known: Iterable[Rollout]) -> None:
        self._stream = stream
        self._answered: set[tuple[str, bool]] = set()
        self.replies = self.tokens = 0
        for one in known:
            self._count(one)

    def answered(self, prompt_text: str, *, greedy: bool) -> bool:
        """Return whether there is a reply to this prompt, drawn this way."""
        return (key_of(prompt_text), greedy) in self._answered

    def add(self, rollout: Rollout) -> None:
        """Append one reply; it outlives the process from here on. Raises StorageError."""
        with storage_errors(self._stream.name):
            self._stream.write(_line(asdict(rollout)))
        self._count(rollout)

    def _count(self, rollout: Rollout) -> None:
        self._answered.add((rollout.key, rollout.greedy))
        self.replies += 1
        self.tokens += len(rollout.reply)


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"
