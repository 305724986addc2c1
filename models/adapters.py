"""Installs a model that an adapter makes of another one: the base that was pulled, merged with it once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError, NotFoundError
from edgedec.core.progress import Progress, silent
from edgedec.disk.files import sha256_of
from edgedec.disk.home import ARTIFACTS
from edgedec.export import ModelCard, export_gguf
from edgedec.export.adapter import AdapterFacts, WeightAdapter, merge
from edgedec.models.layout import Layout, slug
from edgedec.models.recipes import Recipe


def adapter_file(home: Path, name: str) -> Path:
    """Return the place of the adapter that makes the model ``name``."""
    return Layout(home).kept(name) / f"{name}.safetensors"


def packaged_adapter(recipe: Recipe) -> Path:
    """Return the adapter of ``recipe`` that comes with the package.

    Raises BadFileError where it is missing, or another file than the recipe states.
    """
    folder = Path(__file__).parent / ARTIFACTS
    for found in folder.glob(f"*/adapter/{recipe.name}.safetensors"):
        if sha256_of(found) == recipe.adapter:
            return found
    raise BadFileError(f"the adapter of {recipe.name} in {folder} is damaged", hint="install EdgeDec again")


def install_adapter(file: Path, home: Path, *, base: Path | None = None, progress: Progress = silent) -> Path:
    """Merge the adapter ``file`` with its base, and install the model; returns the bundle.

    ``base``: None for the kept GGUF file with the hash that the adapter names. Raises NotFoundError where
    there is none, BadFileError as ``merge`` does, StorageError.
    """
    about, layout = WeightAdapter.load(file).about, Layout(home)
    name = slug(about.name)
    base = base or _kept_base(layout, about)
    export_merged(file, base, layout.kept(name) / f"{name}.gguf", layout.model(name), progress=progress)
    return layout.model(name)


def export_merged(
    file: Path,
    base: Path,
    merged: Path,
    bundle: Path,
    *,
    card: ModelCard | None = None,
    progress: Progress = silent,
) -> Manifest:
    """Write ``base`` with the adapter ``file`` as the GGUF file ``merged``, and export that to ``bundle``.

    The manifest states the hash of the adapter and its facts beside what ``card`` says. Raises BadFileError
    as ``merge`` does, StorageError.
    """
    adapter = WeightAdapter.load(file)
    about, card = adapter.about, card or ModelCard()
    merged.parent.mkdir(parents=True, exist_ok=True)
    merge(adapter, base, merged)
    shown: Mapping[str, str] = {fact: str(value) for fact, value in about.facts.items()}
    made = {"adapter": sha256_of(file), "made of": about.base, "trained for": about.target}
    card = ModelCard({**card.provenance, **made, **shown}, card.preset)
    return export_gguf(merged, bundle, name=bundle.name, card=card, progress=progress, backend="edgedec")


def _kept_base(layout: Layout, about: AdapterFacts) -> Path:
    for path in sorted(layout.kept("x").parent.glob("*/*.gguf")):
        if sha256_of(path) == about.base_sha256:
            return path
    raise NotFoundError(
        f"{about.name} is made of {about.base}, which is not kept here",
        hint="pull that model again and keep its source file",
    )
