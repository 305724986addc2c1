"""Says what a GGUF file or a directory is that holds no model which continues text, and what would work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgedec.core.errors import UnsupportedError, UsageError
from edgedec.export.encoders.sizes import FAMILY

_ENCODERS = ("bert", "t5encoder", "encoder")
"""Parts of the names of architectures that turn texts into vectors."""
_WITHOUT_LAYERS = {"clip": "the encoder of pictures of a model (mmproj)", "imatrix": "an importance matrix"}
_BESIDE = "name the GGUF file of the model beside it; it works without this one"
_PICTURES = ", and pictures are not read yet"
_ADAPTER = "open its base model with it, or merge it when a directory of the base is exported"
_VECTORS = f"EdgeDec runs encoders of the architectures {', '.join(FAMILY)}, and decoders that make vectors"


def refuse_no_model(metadata: Mapping[str, Any], name: str) -> None:
    """Raise UnsupportedError for a GGUF file that is no model; ``name`` is the file's."""
    kind, architecture = metadata.get("general.type"), metadata.get("general.architecture")
    if kind == "adapter" or "adapter.type" in metadata:
        form = metadata.get("adapter.type")
        what = "a LoRA adapter" if form in ("lora", None) else f"an adapter of type {str(form)[:20]!r}"
        raise UnsupportedError(f"{name} holds {what} for a {architecture} model, and no model", hint=_ADAPTER)
    if kind == "mmproj":
        architecture = "clip"
    if isinstance(kind, str) and kind in _WITHOUT_LAYERS:
        architecture = kind
    if isinstance(architecture, str) and architecture in _WITHOUT_LAYERS:
        raise UnsupportedError(
            f"{name} holds {_WITHOUT_LAYERS[architecture]}, and no model",
            hint=_BESIDE + _PICTURES * (architecture == "clip"),
        )
    if (
        isinstance(architecture, str)
        and architecture not in FAMILY
        and any(one in architecture for one in _ENCODERS)
    ):
        raise UnsupportedError(
            f"{name} is an encoder ({architecture[:40]}) of a kind that is not supported",
            hint=_VECTORS,
        )


def refuse_adapter_folder(source: Path) -> None:
    """Raise UsageError for a directory with an adapter and no model."""
    if (source / "adapter_config.json").is_file() and not (source / "config.json").is_file():
        raise UsageError(f"{source} holds an adapter of peft, and no model", hint=_ADAPTER)
