"""The index of a user's own files as a drafter: a file of its model's tokens, mapped from the disk.

Layout: a line that names the format and its version, 16 bytes; the tokens, i32[n], with a separator behind
each file; their places, i32[n], in the order of ``draft.own_files``. Little endian. It holds private text, so
its folder is open to its owner alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgedec.bundle.drafter_manifest import FILES
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError
from edgedec.disk.listed_files import Scalar
from edgedec.draft import Drafter
from edgedec.drafters.artifact_kind import ArtifactKind
from edgedec.drafters.artifacts import new_artifact
from edgedec.drafters.interface import (
    BuildContext,
    DrafterSpec,
    Offer,
    OpenContext,
    OpenDrafter,
    SearchContext,
)
from edgedec.memory.footprint import DrafterMemory

if TYPE_CHECKING:
    from edgedec.draft.own_files import Tokens

FILE = "files.index"
MAGIC = b"edgedec files 1\n"
_NUMBER = np.dtype("<i4")


class FilesKind(ArtifactKind):
    """Drafts with the index of own files that was made for the target."""

    name = FILES
    title = "index of files"
    remedy = "make one, or use other drafters"
    parts = False
    batches = True

    def unnamed(self, search: SearchContext, chosen: Sequence[DrafterSpec]) -> Iterator[Offer]:
        """Yield it where the target has one."""
        if self.folder(search):
            yield Offer(self.name)

    def taps(self, name: str, search: SearchContext) -> tuple[int, ...]:
        """Return none: it reads text. See ``DrafterKind.taps``."""
        return ()

    def opened(self, folder: Path, bundle: Path, opening: OpenContext) -> OpenDrafter:
        """See ``ArtifactKind.opened``."""
        return _OpenFiles(*mapped(folder), opening.target.spec.vocab_size)


class _OpenFiles(OpenDrafter):
    def __init__(self, tokens: Tokens, order: Tokens, vocab_size: int) -> None:
        self._index, self._vocab_size = (tokens, order), vocab_size
        why = "the index of your own files, which drafts what stands there"
        self.memory = DrafterMemory(FILES, why, tokens.nbytes + order.nbytes, lambda choice, sequences: 0)

    def build(self, setting: BuildContext) -> list[Drafter]:
        from edgedec.draft.own_files import OwnFiles

        return [OwnFiles(*self._index, self._vocab_size)]


def write_index(
    manifest: Manifest, home: Path, texts: Iterable[Sequence[int]], facts: Mapping[str, Scalar]
) -> None:
    """Write the index of ``texts``, tokens each, for a model. It takes the place of the one before.

    Raises StorageError.
    """
    from edgedec.draft.own_files import SEPARATOR, order_of

    numbers = np.concatenate([np.array([*text, SEPARATOR], _NUMBER) for text in texts])
    with new_artifact(manifest, FILES, home, facts) as folder:
        folder.chmod(0o700)
        descriptor = os.open(folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            for part in (MAGIC, numbers.tobytes(), order_of(numbers).astype(_NUMBER).tobytes()):
                stream.write(part)


def mapped(folder: Path) -> tuple[Tokens, Tokens]:
    """Map an index: its tokens, and their places in order. Raises BadFileError for another file."""
    file = folder / FILE
    try:
        with file.open("rb") as stream:
            opening, size = stream.read(len(MAGIC)), os.fstat(stream.fileno()).st_size
        count, more = divmod(size - len(MAGIC), 2 * _NUMBER.itemsize)
        if opening == MAGIC and count > 0 and not more:
            numbers = np.memmap(file, _NUMBER, "r", len(MAGIC))
            return numbers[:count], numbers[count:]
    except (OSError, ValueError) as error:
        raise BadFileError(f"{file} cannot be read: {error}", hint="make it again") from error
    raise BadFileError(f"{file} is no index of files of this version", hint="make it again, or remove it")
