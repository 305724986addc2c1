"""Drafters that need no model but a table of what they read, and tables that were prepared for a model.

With a prepared table a start without history drafts from the first reply on.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.bundle.drafter_manifest import TABLES
from edgedec.core.errors import EdgeDecError
from edgedec.core.ledger import SLACK, Ledger
from edgedec.core.progress import Notice
from edgedec.draft import Drafter
from edgedec.drafters.artifacts import artifact
from edgedec.drafters.interface import BuildContext, DrafterKind, OpenContext, OpenDrafter
from edgedec.system.allocator import release_freed

if TYPE_CHECKING:
    from edgedec.loaded_model import LoadedModel

MOST_BYTES = 4_000_000
"""The most that a table may have, packed or not; a larger one is not read."""
_SUFFIX = ".table"
"""Behind the name of the drafter in the name of its file."""
_LENGTH = struct.Struct("<I")
"""A file begins with the number of bytes that ``Drafter.saved`` returned; these follow, packed by zlib."""


class TableKind(DrafterKind):
    """A drafter that is a class without needs: it learns at most ``useful_bytes`` from the text."""

    batches = True
    always = True

    def __init__(self, drafter: type[Drafter]) -> None:
        self.name, self._drafter = drafter.name, drafter

    def open(self, name: str, opening: OpenContext) -> OpenDrafter:
        """See ``DrafterKind.open``."""
        return _OpenTable(self._drafter)


class _OpenTable(OpenDrafter):
    def __init__(self, drafter: type[Drafter]) -> None:
        self._drafter, self.table_bytes = drafter, drafter.useful_bytes

    def build(self, setting: BuildContext) -> list[Drafter]:
        """Make one that learns its share of the useful bytes, which are leased."""
        nbytes = int(setting.share * self.table_bytes)
        made = self._drafter.within(nbytes)
        setting.ledger.hold(made, "tables", nbytes)
        return [made]


def restore_prepared(
    model: LoadedModel, drafters: Sequence[Drafter], home: Path | None, ledger: Ledger, notice: Notice
) -> None:
    """Give the drafters their prepared tables, if there are some for this model.

    Damaged tables, or those of another model, cost a line to ``notice``. The tables fill the memory that
    drafters have for what they learn, and need more only while they are read.
    """
    able = [one for one in drafters if one.caps.remembers]
    if not able:
        return
    try:
        folder = artifact(model.manifest, TABLES, home, model.bundle)
        if folder is None:
            return
        for name in {one.name for one in able}:
            _restore(folder / f"{name}{_SUFFIX}", [one for one in able if one.name == name], model, ledger)
    except (EdgeDecError, ValueError, OSError) as error:
        notice(f"note: {model.name} runs without its prepared tables: {error}")


def write_table(folder: Path, name: str, saved: bytes) -> None:
    """Write what the drafter ``name`` returned from ``saved``."""
    (folder / f"{name}{_SUFFIX}").write_bytes(_LENGTH.pack(len(saved)) + zlib.compress(saved, 9))


def read_table(packed: bytes, name: str) -> bytes:
    """Return what was given to ``write_table``. Raises ValueError for other bytes."""
    length = _length(packed, name)
    try:
        unpacker = zlib.decompressobj()
        saved = unpacker.decompress(packed[_LENGTH.size :], length + 1)
    except zlib.error as error:
        raise ValueError(f"{name} cannot be unpacked: {error}") from error
    if len(saved) != length or not unpacker.eof or unpacker.unused_data:
        raise ValueError(f"{name} does not hold the {length} bytes that it states")
    return saved


def _length(packed: bytes, name: str) -> int:
    if len(packed) < _LENGTH.size:
        raise ValueError(f"{name} is too short")
    length: int = _LENGTH.unpack_from(packed)[0]
    if length > MOST_BYTES:
        raise ValueError(f"{name} holds more than {MOST_BYTES} bytes")
    return length


def _restore(file: Path, drafters: Sequence[Drafter], model: LoadedModel, ledger: Ledger) -> None:
    if not file.is_file():
        return
    size = file.stat().st_size
    if size > MOST_BYTES:
        raise ValueError(f"{file.name} has more than {MOST_BYTES} bytes")
    with ledger.lease(SLACK, size):
        packed = file.read_bytes()
        with ledger.lease(SLACK, _length(packed, file.name)):
            saved = read_table(packed, file.name)
            for drafter in drafters:
                drafter.restore(saved, model.spec.vocab_size)
            del saved
    release_freed()
