"""Installs a model that an adapter makes of another one: the base that was pulled, merged with it once."""

from __future__ import annotations

from pathlib import Path

from edgedec.core.errors import NotFoundError
from edgedec.core.files import sha256_of
from edgedec.core.progress import Progress, silent
from edgedec.export import ModelCard, export_gguf
from edgedec.export.adapter import AdapterFacts, WeightAdapter, merge
from edgedec.models.layout import Layout, slug


def adapter_file(home: Path, name: str) -> Path:
    """Return the place of the adapter that makes the model ``name``."""
    return Layout(home).kept(name) / f"{name}.safetensors"


def install_adapter(file: Path, home: Path, *, base: Path | None = None, progress: Progress = silent) -> Path:
    """Merge the adapter ``file`` with its base, and install the model; returns the bundle.

    ``base``: None for the kept GGUF file with the hash that the adapter names. Raises NotFoundError where
    there is none, BadFileError as ``merge`` does, StorageError.
    """
    adapter = WeightAdapter.load(file)
    about, layout = adapter.about, Layout(home)
    name = slug(about.name)
    base = base or _kept_base(layout, about)
    merged = layout.kept(name) / f"{name}.gguf"
    merged.parent.mkdir(parents=True, exist_ok=True)
    merge(adapter, base, merged)
    shown = {fact: str(value) for fact, value in about.facts.items()}
    made = {"adapter": sha256_of(file), "made of": about.base, "trained for": about.target}
    export_gguf(
        merged, layout.model(name), name=name, card=ModelCard(provenance={**made, **shown}),
        progress=progress, backend="edgedec",
    )  # fmt: skip
    return layout.model(name)


def _kept_base(layout: Layout, about: AdapterFacts) -> Path:
    for path in sorted(layout.kept("x").parent.glob("*/*.gguf")):
        if sha256_of(path) == about.base_sha256:
            return path
    raise NotFoundError(
        f"{about.name} is made of {about.base}, which is not kept here",
        hint="pull that model again and keep its source file",
    )
