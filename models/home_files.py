"""The files below EDGEDEC_HOME beside the models: found, measured, and removed on request.

Models are left to ``Store.remove``. An entry that a running process holds is never removed. A place such as
``costs`` may be a link to a folder elsewhere: it stays, and is emptied. A link inside of a place is
removed, never the file behind it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import TRANSIENT, storage_errors
from edgedec.disk.home import ARTIFACTS, DEFAULT, DRAFTS, HISTORY_LOCK, PREFIXES, ROLLOUTS, TRAINING, TYPED
from edgedec.disk.locks import free, held
from edgedec.models.layout import Layout

_WRITING_S = 60.0
"""A temporary file that was changed within this time may still be written."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Files of one kind. ``text``: whether they hold text of prompts and replies."""

    name: str
    about: str
    text: bool = False


KINDS = {
    kind.name: kind
    for kind in (
        Kind("history", "prompts typed in a chat, and the knowledge of drafters", text=True),
        Kind("prefixes", "the KV cache of prompts' beginnings", text=True),
        Kind("downloads", "unfinished downloads, and remains of processes that were killed"),
        Kind("sources", "GGUF files that were kept on request"),
        Kind("costs", "pass costs of models, bandwidth and idle power of this machine"),
        Kind("records", "hashes that were checked, and paths of local models"),
        Kind("drafters", "drafters made for one model each"),
        Kind("rollouts", "models' replies that drafters are made of", text=True),
        Kind("training", "features and checkpoints of heads in training", text=True),
        Kind("peers", "models in the form of other runtimes, for the bench"),
    )
}
"""All kinds by name. Each can be removed: EdgeDec does without it, or makes it again."""


@dataclass(frozen=True, slots=True)
class HomeEntry:
    """A file or folder that is removed as a whole. ``locks`` are held by the processes that use it."""

    kind: str
    path: Path
    bytes: int
    locks: tuple[Path, ...] = ()

    @property
    def in_use(self) -> bool:
        """Whether a running process holds it now, or may still be writing it."""
        return _may_be_written(self.path) or any(held(lock) for lock in self.locks)


def entries(home: Path) -> list[HomeEntry]:
    """Return all entries below ``home``, by kind, then by path."""
    layout = Layout(home)
    found = [HomeEntry(kind, path, nbytes(path), locks) for kind, path, locks in _places(layout)]
    order = list(KINDS)
    return sorted(found, key=lambda one: (order.index(one.kind), one.path))


def others(home: Path) -> list[Path]:
    """Return the files and folders in ``home`` that are neither models nor of any kind, sorted."""
    known = {path for _, path, _ in _places(Layout(home))} | {home / name for name in _FOLDERS}
    return [path for path in _in(home) if path not in known and path.name not in (HISTORY_LOCK, DEFAULT)]


def remove(entry: HomeEntry, home: Path) -> bool:
    """Remove an entry; returns False, and leaves it, if a running process holds it. Raises StorageError."""
    with ExitStack() as stack:
        if _may_be_written(entry.path) or not all(stack.enter_context(free(lock)) for lock in entry.locks):
            return False
        with storage_errors(str(entry.path), elsewhere="its owner can remove it"):
            layout = Layout(home)
            if entry.path.parent == layout.models:  # a bundle that was moved aside may be the only one
                layout.recover(TRANSIENT.sub("", entry.path.name))
            elif entry.path.is_dir() and not entry.path.is_symlink():
                shutil.rmtree(entry.path)
            else:
                entry.path.unlink(missing_ok=True)
    return True


def nbytes(path: Path) -> int:
    """Return the bytes of a file, or of the files in a folder; of a link, those of the link itself."""
    total = 0
    with suppress(FileNotFoundError):  # another process removed it just now
        total = os.lstat(path).st_size if path.is_symlink() or not path.is_dir() else 0
        if path.is_dir() and not path.is_symlink():
            total = sum(nbytes(Path(one.path)) for one in os.scandir(path))
    return total


_FOLDERS = (
    *("models", "downloads", "gguf", "costs", "verified", "llama.cpp", "peers"),
    *(DRAFTS, ARTIFACTS, PREFIXES, ROLLOUTS, TRAINING),
)
_Place = tuple[str, Path, tuple[Path, ...]]


def _places(layout: Layout) -> Iterator[_Place]:
    home, history = layout.home, (layout.home / HISTORY_LOCK,)
    if os.path.lexists(home / TYPED):
        yield "history", home / TYPED, history
    yield from (("history", path, history) for path in _in(home / DRAFTS))
    for path in _in(home / "downloads"):
        if path.suffix != ".lock":
            yield "downloads", path, (layout.lock(TRANSIENT.sub("", path.name)),)
        elif not held(path) and not (home / "downloads" / path.stem).exists():
            yield "downloads", path, (path,)
    for folder in (layout.models, home / "gguf"):
        for path in _in(folder):
            if TRANSIENT.search(path.name):
                yield "downloads", path, (layout.lock(TRANSIENT.sub("", path.name)),)
            elif folder != layout.models:
                yield "sources", path, (layout.lock(path.name),)
    yield from (("costs", path, ()) for path in _in(home / "costs"))
    for name in ("verified", "llama.cpp"):
        yield from (("records", path, ()) for path in _in(home / name))
    yield from (("records", path, ()) for path in _in(home) if path.name.startswith(layout.local_index.name))
    lock = (home / PREFIXES / "lock",)
    yield from (("prefixes", path, lock) for path in _in(home / PREFIXES) if path.is_dir())
    yield from (("drafters", path, ()) for path in _in(home / ARTIFACTS))
    for kind in (ROLLOUTS, TRAINING):
        yield from ((kind, path, tuple(path.glob("*.lock"))) for path in _in(home / kind))
    yield from (("peers", path, tuple(path.glob("*.lock"))) for path in _in(home / "peers"))


def _in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _may_be_written(path: Path) -> bool:
    if not TRANSIENT.search(path.name):
        return False
    with suppress(FileNotFoundError):
        files = [path, *path.iterdir()] if path.is_dir() and not path.is_symlink() else [path]
        return time.time() - max(os.lstat(file).st_mtime for file in files) < _WRITING_S
    return False
