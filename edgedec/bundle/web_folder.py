"""``web.json``: the files of a folder for browsers, and the hash of every piece of each.

The page compares a piece before it uses it. Pieces fetched before a cut are used at the next visit::

    index.html, page/                 the page: the server's own, with parts for a model in the browser
    run/                              what runs there: modules, edgedec.wasm, sources of kernels, the probe
    model/                            the bundle, its program for a GPU, its graph for the CPU
    web.json
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgedec.bundle.manifest import Manifest
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk import listed_files as listed
from edgedec.disk.listed_files import FileEntry, FolderKind, ListedFolder

CONTENTS = "web.json"
WEB = "web"
PIECE = 4 << 20
"""Bytes that are fetched, hashed and kept at once."""

_FOLDER = FolderKind(CONTENTS, "web folder", "export it again", "edgedec-web", depth=6)


@dataclass(frozen=True, slots=True)
class WebFolder(ListedFolder):
    """A folder's table of contents: every file but ``web.json`` itself, by its path in the folder."""

    name: str
    files: Mapping[str, FileEntry]

    @classmethod
    def load(cls, directory: Path) -> WebFolder:
        """Read ``web.json`` in ``directory``, and check the sizes of its files.

        Raises NotFoundError when there is none, BadFileError when it or a file is broken, UnsupportedError
        when it has another version.
        """
        top = _FOLDER.decoded(_FOLDER.read(directory))
        files = _FOLDER.files(top.get("files", listed.mapping))
        _FOLDER.check_all(directory, files, verify=False)
        return cls(top.get("name", listed.text), files)


@dataclass(frozen=True, slots=True)
class PageParts:
    """Files that parts of the page read, by their paths. ``engine`` and ``weights`` are for any device.

    ``fast`` replaces ``wasm`` in browsers where that is exact. ``cpu`` is for the CPU alone.
    ``shaders``, ``probe`` and ``program`` are for a GPU; None for a model that GPUs do not run. ``apart``
    replaces ``program`` for adapters that fuse no kernels.
    """

    wasm: str
    fast: str
    weights: str
    engine: tuple[str, ...]
    cpu: tuple[str, ...]
    shaders: str | None = None
    probe: str | None = None
    program: str | None = None
    apart: str | None = None


@dataclass(frozen=True, slots=True)
class WebModel:
    """Facts of the page's model. ``context``: slots of the KV cache; ``max_pass``: tokens of a pass.

    ``drafters``: kinds of those with files. ``refused``: why GPUs do not run the model, else "".
    """

    manifest: Manifest
    context: int
    max_pass: int
    drafters: tuple[str, ...] = ()
    refused: str = ""


def save_contents(directory: Path, model: WebModel, parts: PageParts) -> WebFolder:
    """Hash all files of ``directory``, and write its ``web.json``. Raises StorageError."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    files = {path.relative_to(directory).as_posix(): _hashed(path) for path in paths}
    manifest = model.manifest
    facts = {
        "name": manifest.name,
        "context": model.context,
        "max_pass": model.max_pass,
        "drafters": model.drafters,
        "refused": model.refused,
        "chat": manifest.tokenizer.chat_template,
        "preset": manifest.preset.as_json(),
        "piece": PIECE,
        "parts": asdict(parts),
        "files": files,
    }
    _FOLDER.save(directory, _FOLDER.text_of(facts))
    return WebFolder(
        manifest.name, {name: FileEntry(one["bytes"], one["sha256"]) for name, one in files.items()}
    )


def _hashed(path: Path) -> dict[str, Any]:
    """Return the entry of a file; one of a single piece has its hash as that of the file."""
    whole = hashlib.sha256()
    pieces = []
    with path.open("rb") as stream:
        while piece := stream.read(PIECE):
            whole.update(piece)
            pieces.append(hashlib.sha256(piece).hexdigest())
    entry: dict[str, Any] = {"bytes": path.stat().st_size, "sha256": whole.hexdigest()}
    return {**entry, "pieces": pieces} if len(pieces) > 1 else entry
