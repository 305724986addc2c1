"""Name the folders below EDGEDEC_HOME, and repair them after a crash.

models/<name>/            installed bundles
downloads/<name>/         partial downloads, gone after a successful pull
downloads/<name>.lock     held while a process works on <name>
gguf/<name>/<file>.gguf   source files kept on request
peers/<sha256>/           files that other runtimes make of a GGUF file for comparisons; may be deleted
costs/, llama.cpp/        measurements and facts about this machine; may be deleted
verified/                 which files of which bundle had their hashes, and when; may be deleted
local-files.json          which bundle a local GGUF was exported to
drafters/<hash>/          drafters made for one model, by the hash of its weights
rollouts/<hash>/          replies of a model that drafters are made of
training/<hash>/          features and checkpoints of heads in training, with text of prompts and replies
chat_history, drafts/     text of prompts and replies, on request; history.lock is held while they are in use
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from edgedec.disk.files import TRANSIENT, storage_errors
from edgedec.disk.leftovers import remove_tree

_SAFE = re.compile(r"[^A-Za-z0-9._-]+")


def slug(text: str) -> str:
    """Return a directory name for any text: no separators, not hidden, no ending of a temporary name."""
    name = TRANSIENT.sub("", _SAFE.sub("-", text).strip(".-")) or "model"
    return name[:120]


def is_bundle(path: Path) -> bool:
    """Return whether a directory holds an exported model."""
    return (path / "manifest.json").is_file()


class Layout:
    """Paths below one home. ``name`` is always a slug."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.models = home / "models"
        self.local_index = home / "local-files.json"

    def model(self, name: str) -> Path:
        """Return the directory of the bundle."""
        return self.models / name

    def downloads(self, name: str) -> Path:
        """Return the directory of its partial downloads."""
        return self.home / "downloads" / name

    def lock(self, name: str) -> Path:
        """Return the lock file that a process holds while it works on the model."""
        return self.home / "downloads" / f"{name}.lock"

    def kept(self, name: str) -> Path:
        """Return the directory of its source file, where that is kept."""
        return self.home / "gguf" / name

    def places(self, name: str) -> tuple[Path, Path, Path]:
        """Return the directories of the bundle, its downloads and its source."""
        return self.model(name), self.downloads(name), self.kept(name)

    def installed(self) -> Iterator[Path]:
        """Yield the directories of the installed bundles, sorted by name."""
        if self.models.is_dir():
            for path in sorted(self.models.iterdir()):
                if is_bundle(path) and not TRANSIENT.search(path.name):
                    yield path

    def recover(self, name: str) -> None:
        """Finish or undo the work that a killed process left of ``name``. The caller holds its lock.

        ``.old-*`` is a bundle that was moved aside. It goes back if its replacement never came.
        """
        target = self.model(name)
        if not self.models.is_dir():
            return
        with storage_errors(str(target)):
            for path in sorted(self.models.glob(f"{_literal(name)}.*-*")):
                match = TRANSIENT.search(path.name)
                if match is None or path.name[: match.start()] != name:
                    continue
                if match[1] == "old" and is_bundle(path) and not target.exists():
                    os.rename(path, target)
                else:
                    remove_tree(path)

    def discard(self, path: Path) -> None:
        """Rename a directory and then delete it, so that a crash leaves all of it or none.

        A link to a directory is deleted, the directory is not.
        """
        with storage_errors(str(path)):
            if not os.path.lexists(path):
                return
            trash = path.with_name(f"{path.name}.trash-{os.urandom(4).hex()}")
            os.rename(path, trash)
            if trash.is_symlink():  # to a folder that is somebody else's
                trash.unlink()
            else:
                remove_tree(trash)


def _literal(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)
