"""Check the files of a bundle against the hashes in its manifest, once for each state of its files.

A file counts as unchanged while its size, inode and times of change are those that a record under
``home/verified`` states. Unchanged files are not read again; all others are hashed before they are used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from edgedec.bundle.manifest import FileEntry, Manifest
from edgedec.core.errors import BadFileError, StorageError
from edgedec.core.progress import Progress, counted, silent
from edgedec.disk.digest import sha256_for, sha256_hex
from edgedec.disk.files import atomic_path
from edgedec.system.files import stamp

FOLDER = "verified"
_CHUNK_BYTES = 1 << 18

Stamp = list[int]


def verify(
    bundle: Path, manifest: Manifest, home: Path, *, again: bool = False, progress: Progress = silent
) -> int:
    """Hash the files of ``bundle`` that changed since they last passed, smallest first; return their bytes.

    ``home`` holds the records of earlier verifications. Where it cannot be written, every file is hashed each
    time; with ``again`` too. ``progress`` gets the stage "verify". Raises BadFileError for the first file
    that fails.
    """
    record = record_path(home, bundle)
    seen = {} if again else _read(record)
    passed = {
        name: seen[name] for name, entry in manifest.files.items() if _is_known(seen, bundle, name, entry)
    }
    changed = sorted(
        manifest.files.keys() - passed.keys(), key=lambda name: (manifest.files[name].bytes, name)
    )
    if not changed:
        return 0
    total = sum(manifest.files[name].bytes for name in changed)
    report = counted(progress, "verify", total)
    for name in changed:
        passed[name] = [*_hashed(bundle / name, manifest.files[name], report), manifest.files[name].sha256]
    with suppress(StorageError, OSError), atomic_path(record) as temporary:
        temporary.write_text(json.dumps(passed, indent=1) + "\n", encoding="utf-8", newline="\n")
    return total


def record_path(home: Path, bundle: Path) -> Path:
    """Return the file below ``home`` that says which files of ``bundle`` have passed, and when."""
    place = os.path.realpath(bundle)
    return home / FOLDER / f"{sha256_hex(os.fsencode(place))[:32]}.json"


def _is_known(seen: dict[str, Any], bundle: Path, name: str, entry: FileEntry) -> bool:
    try:
        return bool(seen.get(name) == [*stamp(bundle / name), entry.sha256])
    except OSError:
        return False


def _hashed(path: Path, entry: FileEntry, report: Callable[[int], None]) -> Stamp:
    """Return the stamp of a file that has its hash; a file that changed meanwhile matches no stamp later."""
    digest, buffer = sha256_for(entry.bytes), memoryview(bytearray(_CHUNK_BYTES))
    try:
        with path.open("rb", buffering=0) as stream:
            seen = stamp(stream.fileno())
            while count := stream.readinto(buffer):
                digest.update(buffer[:count])
                report(count)
    except OSError as error:
        raise BadFileError(f"{path.name} of the bundle cannot be read: {error.strerror}") from error
    if digest.hexdigest() != entry.sha256:
        raise BadFileError(
            f"{path.name} of the bundle fails its SHA-256", hint="pull or export the model again"
        )
    return seen


def _read(record: Path) -> dict[str, Any]:
    """Return stamp and hash by file name. A damaged record counts as empty."""
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
