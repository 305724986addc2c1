"""Check the files of a bundle against the hashes in its manifest, once for each state of its files.

A file counts as unchanged while its size, inode and times of change are those that a record under
``home/verified`` states. Unchanged files are not read again. All others are hashed in a thread, smallest
first, while the model loads and answers; a file that fails is an error at the next ``check`` or ``wait``.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO

from edgedec.core.errors import BackendError, BadFileError, StorageError, UnsupportedError
from edgedec.core.files import atomic_path
from edgedec.core.manifest import FileEntry, Manifest
from edgedec.core.progress import Steps

FOLDER = "verified"
_CHUNK_BYTES = 1 << 18
_POLL_S = 0.05
_PERHAPS_DAMAGE = (BackendError, BadFileError, UnsupportedError)
"""Errors that a damaged file can lead to before its hash is known to be wrong."""

Stamp = list[int]


class Verification:
    """Verify one bundle in the background. Not for several threads.

    ``home`` holds the records of earlier verifications. Where it cannot be written, every start verifies.
    With ``again`` the records do not count and every file is hashed.
    """

    def __init__(self, bundle: Path, manifest: Manifest, home: Path, *, again: bool = False) -> None:
        """Compare the files with the record, and start hashing those that changed."""
        self._record = record_path(home, bundle)
        self._stop = threading.Event()
        self._failed: BadFileError | None = None
        self._told: Callable[[BadFileError], None] | None = None
        self._thread: threading.Thread | None = None
        self.done_bytes = 0
        """Bytes hashed so far."""
        self._files = manifest.files
        self._seen: dict[str, list[Any]] = {} if again else _read(self._record)
        changed = [name for name in manifest.files if not self._is_known(bundle, name)]
        changed.sort(key=lambda name: manifest.files[name].bytes)
        self.total_bytes = sum(manifest.files[name].bytes for name in changed)
        """Bytes that have to be hashed; 0 when no file changed."""
        if changed:
            # The files are opened now: a pull may replace the bundle while this model still runs.
            with ExitStack() as opening:
                streams = {name: opening.enter_context(_open(bundle / name)) for name in changed}
                self._streams = opening.pop_all()
            self._thread = threading.Thread(target=self._run, args=(streams,), name="verify", daemon=True)
            self._thread.start()

    def excuse(self, told: Callable[[BadFileError], None]) -> None:
        """Call ``told`` once where ``check`` and ``wait`` would raise."""
        self._told = told

    def check(self) -> None:
        """Raise BadFileError if a file has failed so far, unless that is excused."""
        if self._failed is None:
            return
        if self._told is None:
            raise self._failed
        told, self._told = self._told, _nothing
        told(self._failed)

    def wait(self, progress: Steps | None = None) -> None:
        """Wait until every file is hashed. Raise BadFileError if one fails, as ``check`` does.

        ``progress`` receives bytes hashed, and bytes to hash.
        """
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(_POLL_S)
            if progress:
                progress(self.done_bytes, self.total_bytes)
        self.check()

    def stop(self) -> None:
        """Give up: files that are not hashed yet are verified at the next start."""
        self._stop.set()

    def _is_known(self, bundle: Path, name: str) -> bool:
        try:
            status = (bundle / name).stat()
        except OSError:
            return False
        return self._seen.get(name) == [*_stamp(status), self._files[name].sha256]

    def _run(self, streams: Mapping[str, BinaryIO]) -> None:
        with self._streams:
            try:
                if all(self._passes(name, stream, self._files[name]) for name, stream in streams.items()):
                    self._save()
            except OSError as error:
                self._failed = BadFileError(f"a file of the bundle cannot be read: {error.strerror}")

    def _passes(self, name: str, stream: BinaryIO, entry: FileEntry) -> bool:
        """Whether a file has its hash; False, too, when there was no time to find out."""
        before = os.fstat(stream.fileno())
        digest, buffer = hashlib.sha256(), memoryview(bytearray(_CHUNK_BYTES))
        while count := stream.readinto(buffer):  # type: ignore[attr-defined]
            if self._stop.is_set():
                return False
            digest.update(buffer[:count])
            self.done_bytes += count
        if digest.hexdigest() != entry.sha256:
            self._failed = BadFileError(
                f"{name} of the bundle fails its SHA-256", hint="pull or export the model again"
            )
            return False
        stamp = _stamp(before)
        if stamp == _stamp(os.fstat(stream.fileno())):
            self._seen[name] = [*stamp, entry.sha256]
        return True

    def _save(self) -> None:
        known = {name: self._seen[name] for name in self._files if name in self._seen}
        with suppress(StorageError, OSError), atomic_path(self._record) as temporary:
            temporary.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


class Verifications:
    """The verifications of all bundles that a run opens; it ends well only if they are intact."""

    def __init__(self, bundle: Path, others: Mapping[str, Path], home: Path) -> None:
        """Begin them: of the target's ``bundle``, and of ``others`` by name.

        ``home`` holds the records of earlier ones. Raises the errors of ``Manifest.load``.
        """
        self._others = {name: Verification(path, Manifest.load(path), home) for name, path in others.items()}
        self._each = [Verification(bundle, Manifest.load(bundle), home), *self._others.values()]

    def excuse(self, name: str, told: Callable[[BadFileError], None]) -> None:
        """Let the run end well without the bundle of this name; ``told`` gets the error if it fails."""
        self._others[name].excuse(told)

    def check(self) -> None:
        """Raise BadFileError if a bundle has failed so far that is not excused."""
        for one in self._each:
            one.check()

    def wait(self, progress: Steps | None = None) -> None:
        """Wait until all are verified. Raise BadFileError as ``check`` does.

        ``progress`` is of each in turn.
        """
        for one in self._each:
            one.wait(progress)

    def conclude(self, error: BaseException | None, progress: Steps | None = None) -> None:
        """Wait as ``wait`` does when the run ends; give up after an error that no damaged file leads to."""
        if error is None or isinstance(error, _PERHAPS_DAMAGE):
            self.wait(progress)
        else:
            for one in self._each:
                one.stop()


def _nothing(error: BadFileError) -> None:
    """Do nothing: it was told already."""


def record_path(home: Path, bundle: Path) -> Path:
    """Return the file below ``home`` that says which files of ``bundle`` have passed, and when."""
    place = os.path.realpath(bundle)
    return home / FOLDER / f"{hashlib.sha256(os.fsencode(place)).hexdigest()[:32]}.json"


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb", buffering=0)
    except OSError as error:
        raise BadFileError(f"{path.name} of the bundle cannot be read: {error.strerror}") from error


def _read(record: Path) -> dict[str, list[Any]]:
    """Return stamp and hash by file name. A damaged record counts as empty."""
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _stamp(status: os.stat_result) -> Stamp:
    return [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]
