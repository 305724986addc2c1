"""What an input does besides answering: files it writes, processes it starts, memory it takes."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from edgedec.text import line_process
from tests.fuzz.target import Files, Link

_STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect")
_WORKER = line_process.PROGRAM  # the one program that an input may start, as an argument of Python
_CHANGES = {
    "os.rename": (0, 1),
    "os.remove": (0,),
    "os.rmdir": (0,),
    "os.mkdir": (0,),
    "os.link": (1,),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "os.chmod": (0,),
}
"""Audit events (docs.python.org/3/library/audit_events.html), and which arguments are the paths."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_SECRET = b"not yours\n"


class Place:
    """``folder``, where an input lies and may write; and ``outside`` beside it, where it may not."""

    def __init__(self, base: Path) -> None:
        self._base = base.resolve()
        self.folder, self._outside = self._base / "input", self._base / "outside"
        self._outside.mkdir()
        for name in ("secret", "weights.bin"):
            (self._outside / name).write_bytes(_SECRET)
        self._open = False
        self._seen: list[str] = []
        sys.addaudithook(self._audit)

    def put(self, files: Files) -> None:
        """Only these files are there, and a link to one that is not the input's."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        (self.folder / "link").symlink_to("/etc/passwd")
        for name, data in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(data, Link):
                path.symlink_to(data.decode())
            else:
                path.write_bytes(data)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """The block's deeds are noted."""
        self._seen, self._open = [], True
        try:
            yield
        finally:
            self._open = False

    def misdeed(self) -> str | None:
        """What the last watched block did that no input may do."""
        if self._seen:
            return self._seen[0]
        found = {str(path.relative_to(self._base)) for path in self._outside.rglob("*")}
        found |= {path.name for path in self._base.iterdir()}
        if found != {"input", "outside", "outside/secret", "outside/weights.bin"}:
            return f"files beside the folder: {sorted(found)}"
        if any((self._outside / name).read_bytes() != _SECRET for name in ("secret", "weights.bin")):
            return "a file beside the folder was changed"
        return None

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._open:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str | bytes | os.PathLike) and flags & _WRITES:
                self._note(event, os.path.realpath(os.fsdecode(path)))
        elif event in _CHANGES:
            handles = [a for a in arguments[len(_CHANGES[event]) :] if isinstance(a, int)] or [-1]
            for position in _CHANGES[event]:
                path = arguments[position]
                if not isinstance(path, int):
                    self._note(event, self._entry(os.fsdecode(path), handles[-1]))
        elif event in _STARTS and not (event == _STARTS[0] and _WORKER in arguments[1]):
            self._seen.append(f"{event} {arguments[0]!r}"[:200])

    def _entry(self, path: str, handle: int) -> str:
        """The absolute path of a directory's entry, which is not followed if it is a link."""
        if handle >= 0 and not os.path.isabs(path):
            path = os.path.join(os.readlink(f"/proc/self/fd/{handle}"), path)
        folder, name = os.path.split(path)
        return os.path.join(os.path.realpath(folder), name)

    def _note(self, event: str, path: str) -> None:
        made_already = event == "os.mkdir" and path == str(self.folder)  # asked for, not made
        if path != os.devnull and not made_already and not path.startswith(f"{self.folder}{os.sep}"):
            self._seen.append(f"{event} {path}"[:200])


class Memory:
    """Bytes that were resident at the peak of a block, beyond those at its start."""

    def __init__(self) -> None:
        self.peak = 0

    @contextmanager
    def measured(self) -> Iterator[None]:
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark is now what is resident
        start = self._resident()
        try:
            yield
        finally:
            self.peak = max(0, self._resident() - start)

    def _resident(self) -> int:
        text = Path("/proc/self/status").read_bytes()
        at = text.index(b"VmHWM:") + 6
        return int(text[at : text.index(b"kB", at)]) << 10
