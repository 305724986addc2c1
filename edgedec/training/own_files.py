"""Reads a user's own files for an index: folders, files and patterns in, texts out.

Files that git ignores, that hold no text, or that are huge are left out; the reasons are counted.
"""

from __future__ import annotations

import glob
import json
import os
import stat
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from edgedec.core.errors import NotFoundError
from edgedec.core.quick_dataclass import dataclass

MOST_BYTES = 1 << 20
"""The largest file that is read: what is larger was seldom written by hand."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that was found: its texts, or why it has none."""

    path: Path
    texts: tuple[str, ...] = ()
    why_not: str = ""


def own_texts(named: Sequence[str]) -> Iterator[FoundFile]:
    """Yield the files that ``named`` stands for, each once: files, folders with all below, and patterns.

    Raises NotFoundError for a name of nothing.
    """
    seen: set[Path] = set()
    for file in (file for name in named for file in _matching(name)):
        if (real := file.resolve()) not in seen:
            seen.add(real)
            yield _read(file)


def _matching(name: str) -> Iterator[Path]:
    path = Path(name).expanduser()
    found = [path] if path.exists() else [Path(one) for one in sorted(glob.glob(str(path), recursive=True))]
    if not found:
        raise NotFoundError(f"there is no file or folder {name!r:.200}", hint="name files, folders, patterns")
    for one in found:
        yield from _below(one, named=one == path) if one.is_dir() else [one.resolve()]


def _below(folder: Path, *, named: bool = False) -> Iterator[Path]:
    """Yield the files below a folder that git does not ignore, in order; without git those not hidden."""
    listed = _of_git(folder, named)
    for name in _walked(folder) if listed is None else listed:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)  # a repository in a repository
        else:
            yield path


def _of_git(folder: Path, named: bool) -> list[str] | None:
    """Return the files below ``folder`` that git has or would add; None without git.

    Also outside a repository: its .gitignore files count there. A folder that its repository ignores as a
    whole is read as one that lies outside if it was ``named``.
    """
    wanted = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    inside = _git(folder, *wanted)
    if inside or (inside is not None and not named):
        return inside
    with TemporaryDirectory() as empty:
        if _git(folder, "init", "-q", "--bare", empty) is None:
            return None
        return _git(folder, f"--git-dir={empty}", "--work-tree=.", *wanted)


def _git(folder: Path, *words: str) -> list[str] | None:
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *words]
    around = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(command, capture_output=True, check=False, env=around)
    except OSError:
        return None
    names = sorted({os.fsdecode(name) for name in done.stdout.split(b"\0") if name})
    return None if done.returncode else names


def _walked(folder: Path) -> Iterator[str]:
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (os.path.join(path, name) for name in sorted(files) if not name.startswith("."))


def _read(path: Path) -> FoundFile:
    try:
        about = path.stat() if not path.is_symlink() else path.lstat()
        if not stat.S_ISREG(about.st_mode):
            return FoundFile(path, why_not="links and no files")
        if about.st_size > MOST_BYTES:
            return FoundFile(path, why_not=f"larger than {MOST_BYTES >> 20} MiB")
        data = path.read_bytes()
        if b"\0" in data:
            return FoundFile(path, why_not="no text")
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return FoundFile(path, why_not="no text in UTF-8")
    except OSError:
        return FoundFile(path, why_not="files that cannot be read")
    texts = tuple(one for one in _spoken(path, text) or [text] if one.strip())
    return FoundFile(path, texts, "" if texts else "empty")


def _spoken(path: Path, text: str) -> list[str]:
    """Return the texts of a chat log, as people read them; none for other files."""
    if path.suffix not in (".json", ".jsonl"):
        return []
    try:
        lines = [text] if path.suffix == ".json" else text.splitlines()
        return [one for line in lines if line.strip() for one in _said(json.loads(line))]
    except (ValueError, RecursionError):
        return []


def _said(value: Any) -> Iterator[str]:
    """Yield the contents of all messages in a document: objects with a role."""
    if isinstance(value, dict) and "role" in value and isinstance(value.get("content"), str):
        yield value["content"]
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _said(one)
