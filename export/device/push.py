"""Sends a device's folder to a phone: what is there already stays, and every hash is compared there.

``device.json`` goes last, and first away where anything changes: where it lies, the whole folder does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from edgedec.bundle.device_folder import DEVICE, DeviceFolder
from edgedec.core.errors import BackendError, BadFileError, StorageError, UnsupportedError
from edgedec.core.progress import Notice, Progress, silent
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import size
from edgedec.disk.files import sha256_of
from edgedec.disk.listed_files import FileEntry
from edgedec.export.device.adb import Adb

APP = "ai.edgedec.app"
"""The package of EdgeDec's app, whose own folder the files go to where it is installed."""
_OF_APP = f"/sdcard/Android/data/{APP}/files/models"
_OF_SHELL = "/data/local/tmp/edgedec/models"
_STRANGE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Pushed:
    """The folder on the phone, the files that were sent to it, and the number of those that were there."""

    name: str
    place: str
    sent: Mapping[str, int]
    present: int


def push_folder(folder: Path, adb: Adb, notice: Notice, report: Progress = silent) -> Pushed:
    """Send the files of ``folder`` that the phone lacks. The same call goes on where one was cut off.

    Raises the errors of ``DeviceFolder.load`` and ``Adb``, StorageError for a full phone, BadFileError for a
    file that is damaged here, BackendError for one that arrives damaged.
    """
    listed = DeviceFolder.load(folder)
    files = {**listed.files, DEVICE: FileEntry.of(folder / DEVICE)}
    place = f"{_root(adb, notice)}/{_STRANGE.sub('-', listed.target.name).strip('._-')[:80] or 'model'}"
    missing = _missing(adb, place, files)
    if not missing:
        return Pushed(listed.target.name, place, {}, len(files))
    missing = [*(name for name in missing if name != DEVICE), DEVICE]
    adb.output(f"rm -f {place}/{DEVICE}")
    adb.output(f"mkdir -p {' '.join(sorted({str(PurePosixPath(place, name).parent) for name in missing}))}")
    sizes = {name: files[name].bytes for name in missing}
    _check_room(adb, place, sum(sizes.values()))
    sending = _Sending(folder, adb, place, report, sum(sizes.values()))
    for names in (missing[:-1], missing[-1:]):
        for name in names:
            sending.send(name, sizes[name])
        # Files come with the rights that they have here, and an app is another user.
        adb.output(f"chmod -R a+rX {place} || true")
        for name in _missing(adb, place, {name: files[name] for name in names}):
            raise _damaged(folder, name, files[name])
    return Pushed(listed.target.name, place, sizes, len(files) - len(missing))


class _Sending:
    """Sends one file after the other, and reports the bytes of all."""

    def __init__(self, folder: Path, adb: Adb, place: str, report: Progress, total: int) -> None:
        self._folder, self._adb, self._place = folder, adb, place
        self._report, self._total, self._done = report, total, 0

    def send(self, name: str, nbytes: int) -> None:
        self._adb.push(self._folder / name, f"{self._place}/{name}", self._arrived)
        self._done += nbytes
        self._arrived(0)

    def _arrived(self, nbytes: int) -> None:
        self._report("send", min(self._done + nbytes, self._total), self._total)


def _root(adb: Adb, notice: Notice) -> str:
    """Return the folder of models on the phone: the app's, or one that every app may read.

    Raises UnsupportedError for a phone that cannot hash files.
    """
    if not adb.succeeds("command -v sha256sum > /dev/null"):
        raise UnsupportedError("the phone has no sha256sum", hint="copy the folder by USB")
    if adb.succeeds(f"pm path {APP} | grep -q package:"):
        if adb.succeeds(f"mkdir -p {_OF_APP} && touch {_OF_APP}/.try && rm {_OF_APP}/.try"):
            return _OF_APP
        notice(f"note: the phone lets nobody write to the app's folder, so the files go to {_OF_SHELL}")
    return _OF_SHELL


def _missing(adb: Adb, place: str, files: Mapping[str, FileEntry]) -> Sequence[str]:
    """Return the files that are not at ``place`` on the phone, or not with their hash."""
    there = adb.sha256(place, {name: entry.bytes for name, entry in files.items()})
    return [name for name, entry in files.items() if there.get(name) != entry.sha256]


def _check_room(adb: Adb, place: str, needed: int) -> None:
    free = adb.free_bytes(place)
    if free is not None and free < needed:
        raise StorageError(
            f"the phone has {size(free)} free, and {size(needed)} are to be sent",
            hint="free some space on it",
        )


def _damaged(folder: Path, name: str, entry: FileEntry) -> BadFileError | BackendError:
    """Return the error for a file that has another hash on the phone than in the list."""
    if sha256_of(folder / name) != entry.sha256:
        return BadFileError(f"{name} of the device folder fails its SHA-256", hint="export it again")
    return BackendError(f"{name} arrived damaged", hint="the same command sends it again")
