"""The folder of saved prefixes: files of the format of sessions, within a bound of bytes, the oldest out.

Several processes may share it. A file is written beside its place and renamed, and its hash is checked before
anything of it is used. Only its owner can read it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from edgedec.core.errors import BadFileError
from edgedec.core.forward import Sink
from edgedec.disk.files import TRANSIENT, storage_errors
from edgedec.disk.home import PREFIXES
from edgedec.disk.locks import exclusive
from edgedec.session.prefix_keys import NAME, Stretch
from edgedec.session.session_file import FORMAT, VERSION, Stored, open_file, write_file

_FOLDER_CHARS = 16
_STEP_NS = 1_000_000
"""Between the times of use of two files of one prefix, whose beginning is to go last."""
_ABANDONED_S = 60.0


class PrefixFolder:
    """The saved prefixes of one model with one kind of cache, in ``home``.

    ``root``: the hash that their names begin from. ``facts`` stand in each file. ``limit``: most bytes of all
    models' files together.
    """

    def __init__(self, home: Path, root: str, facts: Mapping[str, str], limit: int) -> None:
        self.all = home / PREFIXES
        self.folder = self.all / root[:_FOLDER_CHARS]
        self.limit = limit
        self._facts = dict(facts)

    def make(self) -> None:
        """Make the folder, for its owner alone. Raises StorageError."""
        with storage_errors(str(self.all)):
            self.all.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            with suppress(OSError):  # a file system without modes
                self.all.chmod(0o700)

    def names(self) -> set[str]:
        """Return the names of the files that are there."""
        with suppress(OSError):
            return {one.name for one in os.scandir(self.folder) if NAME.fullmatch(one.name)}
        return set()

    def others(self) -> int:
        """Count the files of other models, other kinds of cache, and other versions."""
        return sum(path.parent != self.folder for path, _ in self._files())

    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(facts.st_size for _, facts in self._files())

    def write(
        self,
        stretch: Stretch,
        seconds: float,
        nbytes: int,
        body: Callable[[Sink], None],
        keep: Collection[str],
    ) -> bool:
        """Write a file of about ``nbytes``; False where the bound has no room for it beside ``keep``.

        ``seconds``: the time that computing it took. Raises StorageError, OSError, the errors of ``body``.
        """
        self.make()
        with exclusive(self.all / "lock", lambda: None):
            if not self._room_for(nbytes, {self.folder / name for name in keep}):
                return False
            write_file(self.folder / stretch.name, self._document(stretch, seconds), body, durable=False)
        return True

    @contextmanager
    def opened(self, stretch: Stretch) -> Iterator[tuple[Stored, float]]:
        """Open a file whose hash is right; yields it and the seconds that computing it took.

        Raises the errors of ``open_file``, and BadFileError for a file of something else.
        """
        path = self.folder / stretch.name
        with open_file(path) as stored:
            expected = self._document(stretch, 0.0)["prefix"]
            found = stored.document.get("prefix")
            seconds = found.pop("seconds", None) if isinstance(found, dict) else None
            del expected["seconds"]
            if found != expected or not isinstance(seconds, float):
                raise BadFileError(f"{path} is not the saved prefix that its name says")
            yield stored, seconds

    def used(self, names: Sequence[str]) -> None:
        """Note that the files of a prefix, from its beginning on, were used now."""
        now = time.time_ns()
        for at, name in enumerate(names):
            with suppress(OSError):
                os.utime(self.folder / name, ns=(now, now - at * _STEP_NS))

    def drop(self, name: str) -> None:
        """Remove a file."""
        with suppress(OSError):
            (self.folder / name).unlink()

    def _document(self, stretch: Stretch, seconds: float) -> dict[str, Any]:
        place = {"name": stretch.name, "first": stretch.first, "end": stretch.end, "closes": stretch.closes}
        return {"format": FORMAT, "version": VERSION, "prefix": {**self._facts, **place, "seconds": seconds}}

    def _files(self) -> list[tuple[Path, os.stat_result]]:
        """Return all files, without those that killed processes left: these are removed."""
        found = list[tuple[Path, os.stat_result]]()
        for folder in self.all.iterdir() if self.all.is_dir() else ():
            for path in folder.iterdir() if folder.is_dir() and not folder.is_symlink() else ():
                with suppress(OSError):  # another process removed it just now
                    facts = path.lstat()
                    if TRANSIENT.search(path.name) and time.time() - facts.st_mtime > _ABANDONED_S:
                        path.unlink()
                    else:
                        found.append((path, facts))
        return found

    def _room_for(self, nbytes: int, keep: Collection[Path]) -> bool:
        """Remove the files that were used longest ago until ``nbytes`` more fit; never those of ``keep``."""
        files = sorted(self._files(), key=lambda one: one[1].st_mtime_ns)
        taken = sum(facts.st_size for _, facts in files)
        for path, facts in files:
            if taken + nbytes <= self.limit:
                break
            if path not in keep and not TRANSIENT.search(path.name):
                with suppress(OSError):  # Windows keeps a file that is read
                    path.unlink()
                    taken -= facts.st_size
        return taken + nbytes <= self.limit
