"""Tells GGUF files that hold a drafter from those that hold a model."""

from __future__ import annotations

from pathlib import Path

from edgedec.bundle.drafter_manifest import ASSISTANT, HEAD, MTP
from edgedec.core.errors import UnsupportedError
from edgedec.export.gguf_source import GgufSource, open_gguf
from edgedec.export.mtp.source import NEEDED

ARCHITECTURES_OF_DRAFTERS = {"eagle3": HEAD, "gemma4-assistant": ASSISTANT}
_WORDS = {HEAD: "an EAGLE-3 head", ASSISTANT: "an assistant", MTP: "the MTP layer of a model alone"}
_FIRST = "blk.0.attn_norm.weight"


def drafter_in(path: Path) -> str | None:
    """Return the kind of drafter that the GGUF file ``path`` holds; None for another file.

    A whole model counts as MTP where it has such layers. Raises as ``open_gguf``.
    """
    with open_gguf(path) as gguf:
        return _kind(gguf)


def refuse_drafter(gguf: GgufSource) -> None:
    """Raise UnsupportedError for a file that holds a drafter and no model."""
    kind = _kind(gguf)
    if kind is not None and not (kind == MTP and _FIRST in gguf.tensors):
        raise UnsupportedError(
            f"{gguf.path.name} holds {_WORDS[kind]}, which is no model",
            hint="import it as a drafter of its model",
        )


def _kind(gguf: GgufSource) -> str | None:
    name = gguf.metadata.get("general.architecture")
    if isinstance(name, str) and name in ARCHITECTURES_OF_DRAFTERS:
        return ARCHITECTURES_OF_DRAFTERS[name]
    has_layer = gguf.metadata.get(f"{name}.nextn_predict_layers")
    return MTP if has_layer and any(one.endswith("." + NEEDED) for one in gguf.tensors) else None
