"""Lines for the user about what an export made of a model."""

from __future__ import annotations

from edgedec.bundle.manifest import Manifest

LEFT_OUT = "left out"
"""Key of a manifest's source: what of the model is not in the bundle."""


def notes(manifest: Manifest) -> list[str]:
    """Return the lines, none for a model that is there as a whole and run by EdgeDec's kernels."""
    found = []
    if manifest.kind == "gguf":
        found.append(f"note: {manifest.name} is run by llama.cpp, not by EdgeDec's kernels")
    if left_out := manifest.source.get(LEFT_OUT):
        found.append(f"note: {manifest.name} reads text only: {left_out} are left out")
    return found
