"""Kinds of drafters that lie in files of others, told from each other and from models."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, cast

from edgedec.bundle.drafter_manifest import ASSISTANT, HEAD, MTP
from edgedec.core.errors import UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.gguf_source import GgufSource, open_gguf
from edgedec.export.gguf_writer import ARCHITECTURE
from edgedec.export.nextn import NEEDED

if TYPE_CHECKING:
    from edgedec.export.drafters.interface import DrafterFiles

_FIRST = "blk.0.attn_norm.weight"


@dataclass(frozen=True, slots=True)
class ForeignKind:
    """A kind of drafter as others make it."""

    name: str
    title: str
    """The drafter, in messages."""
    alone: str
    """The contents of a GGUF file that has one and no model, in messages."""
    reader: str
    """The class that reads and writes such files, and its module."""
    architecture: str = ""
    """That of its GGUF files; "" where they have the model's."""
    own: bool = False
    """Whether a model has it in its own file, so that its bundle carries it."""

    @property
    def one(self) -> str:
        """The title with its article."""
        return f"{'an' if self.title[0] in 'aeioM' else 'a'} {self.title}"

    def files(self) -> DrafterFiles:
        """Return the functions of this kind, whose imports take a while."""
        return cast("DrafterFiles", resolve_name(self.reader)())


KINDS = {
    kind.name: kind
    for kind in (
        ForeignKind(HEAD, "head", "an EAGLE-3 head", "edgedec.export.eagle3.files:HeadFiles", "eagle3"),
        ForeignKind(
            MTP, "MTP layer", "the MTP layer of a model alone", "edgedec.export.mtp.files:MtpFiles", own=True
        ),
        ForeignKind(
            ASSISTANT,
            "assistant",
            "an assistant",
            "edgedec.export.assistant.files:AssistantFiles",
            "gemma4-assistant",
        ),
    )
}
"""The kinds by name. The first one takes what no other does."""


def drafter_in(path: Path) -> str | None:
    """Return the kind of drafter that a GGUF file or a directory holds; None for another one.

    A file with a whole model counts as MTP where it has such layers. Raises as ``open_gguf``, and
    BadFileError for a broken config.json.
    """
    if path.is_dir():
        return next((kind.name for kind in KINDS.values() if kind.files().in_directory(path)), None)
    with open_gguf(path) as gguf:
        return _kind(gguf)


def refuse_drafter(gguf: GgufSource) -> None:
    """Raise UnsupportedError for a file that holds a drafter and no model."""
    kind = _kind(gguf)
    if kind is not None and not (kind == MTP and _FIRST in gguf.tensors):
        raise UnsupportedError(
            f"{gguf.path.name} holds {KINDS[kind].alone}, which is no model",
            hint="import it as a drafter of its model",
        )


def _kind(gguf: GgufSource) -> str | None:
    name = gguf.metadata.get(ARCHITECTURE)
    known = {kind.architecture: kind.name for kind in KINDS.values() if kind.architecture}
    if isinstance(name, str) and name in known:
        return known[name]
    has_layer = gguf.metadata.get(f"{name}.nextn_predict_layers")
    return MTP if has_layer and any(one.endswith("." + NEEDED) for one in gguf.tensors) else None
