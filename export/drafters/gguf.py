"""Writes drafters as GGUF files for llama.cpp. Their matrices keep their formats."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgedec.bundle.drafter_manifest import DrafterManifest, Target
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError, EdgeDecError
from edgedec.export.drafters.interface import StoredDrafter
from edgedec.export.drafters.kinds import KINDS
from edgedec.export.gguf_source import GgufSource, open_gguf
from edgedec.export.gguf_writer import Value, metadata_of, write_gguf


def write_drafter_gguf(path: Path, folder: Path, target: Manifest, source: Path, *, name: str) -> None:
    """Write the drafter in ``folder`` for the model of ``target``, whose GGUF file is ``source``.

    That file has the tokens. Raises NotFoundError, BadFileError for a damaged drafter and for another file
    than the model's, UnsupportedError for a drafter that llama.cpp cannot express, StorageError.
    """
    manifest = DrafterManifest.load(folder)
    manifest.check_target(Target.of(target))
    kind = KINDS[manifest.kind]
    with open_gguf(source) as gguf:
        try:
            metadata, tensors = kind.files().gguf(StoredDrafter(folder, manifest, target), gguf, name)
        except EdgeDecError:
            raise
        except Exception as error:  # a damaged graph fails in protobuf, NumPy or by a name that it lacks
            raise BadFileError(f"{folder} holds no {kind.title}", hint="make it again") from error
        write_gguf(path, metadata, tensors)


def tokens_of(gguf: GgufSource) -> Mapping[str, Value]:
    """Return the metadata of a model's file that are about its tokens."""
    return {key: one for key, one in metadata_of(gguf.path).items() if key.startswith("tokenizer.")}


def other_model(gguf: GgufSource, title: str) -> BadFileError:
    """Return the error for another file than the one of the model that the drafter ``title`` drafts for."""
    return BadFileError(f"{gguf.path} is not the model that the {title} drafts for", hint="name its file")
