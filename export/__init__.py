"""Export: a GGUF file becomes a bundle, the directory that EdgeDec runs. Importing this costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from edgedec.core.manifest import Manifest

__all__ = ["export_gguf"]


def export_gguf(
    source: Path,
    out: Path,
    *,
    name: str | None = None,
    provenance: Mapping[str, str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Manifest:
    """Turn the GGUF file ``source`` into the bundle directory ``out`` and return its manifest.

    Weights keep their exact values. ``out`` is replaced as a whole when everything is written, and only
    when it is empty or a bundle; an error, Ctrl-C or SIGTERM leaves it as it was. ``name`` defaults to the
    model's own; ``provenance`` is added to the manifest's source; ``progress(stage, done_bytes,
    total_bytes)`` is called for the stages "source" (hashing) and "weights".

    Raises NotFoundError, BadFileError, UnsupportedError, UsageError or StorageError.
    """
    from edgedec.export.exporter import export_gguf as export

    return export(Path(source), Path(out), name=name, provenance=provenance, progress=progress)
