"""Resolve names of models, as users type them, to files to fetch."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from edgedec.core.errors import NotFoundError, UsageError
from edgedec.models.layout import slug
from edgedec.models.recipes import RECIPES, HubFile, Licence, Recipe
from edgedec.models.sources.verify import Expected

HUB_PREFIX = "hf:"


@dataclass(frozen=True, slots=True)
class Job:
    """One model to install: its name in the store, and facts that its GGUF must match."""

    name: str
    expected: Expected
    licence: Licence | None = None
    recipe: Recipe | None = None
    hub: HubFile | None = None


def store_name(reference: str) -> str:
    """Return the directory name for a recipe, an ``hf:`` reference or an installed name.

    Raises NotFoundError for any other text.
    """
    if reference.startswith(HUB_PREFIX):
        return hub_name(parse_hub(reference))
    if reference.lower() in RECIPES:
        return reference.lower()
    if reference != slug(reference):
        raise unknown(reference, ())
    return reference


def hub_name(file: HubFile) -> str:
    """Return ``owner--repo--file`` without the suffix."""
    return slug("--".join([*file.repo.split("/"), *file.file.removesuffix(".gguf").split("/")]))


def parse_hub(reference: str) -> HubFile:
    """Parse ``hf:owner/repo/file.gguf``; the file may lie in folders. Raises UsageError for another form."""
    parts = reference.removeprefix(HUB_PREFIX).split("/")
    if len(parts) < 3 or not all(parts) or ".." in parts or not parts[-1].lower().endswith(".gguf"):
        raise UsageError(
            f"{reference} is not a file on the model hub", hint="the form is hf:owner/repo/file.gguf"
        )
    return HubFile("/".join(parts[:2]), "/".join(parts[2:]))


def job_for(reference: str, installed: Iterable[str]) -> Job:
    """Return the job for a recipe or an ``hf:`` reference. Raises NotFoundError, with names that are near."""
    if reference.startswith(HUB_PREFIX):
        file = parse_hub(reference)
        return Job(hub_name(file), Expected(Path(file.file).name), hub=file)
    recipe = RECIPES.get(reference) or RECIPES.get(reference.lower())
    if recipe is None:
        raise unknown(reference, installed)
    return job_of(recipe)


def job_of(recipe: Recipe) -> Job:
    """Return the job for a recipe."""
    expected = Expected(recipe.file_name, recipe.bytes, recipe.sha256)
    return Job(recipe.name, expected, recipe.licence, recipe, recipe.hub)


def job_for_file(sha256: str, path: Path) -> Job:
    """Return the job for a local GGUF, named after its recipe, else after its file name and hash."""
    size = path.stat().st_size
    for recipe in RECIPES.values():
        if recipe.sha256 == sha256:
            return job_of(recipe)
    return Job(f"{slug(path.stem)}-{sha256[:12]}", Expected(path.name, size, sha256))


def looks_like_path(reference: str) -> bool:
    """Return whether a reference has the form of a path rather than of a model's name."""
    if reference.startswith(HUB_PREFIX):
        return False
    separators = {"/", os.sep, os.altsep or "/"}
    return (
        any(s in reference for s in separators)
        or reference.startswith(("~", "."))
        or reference.endswith(".gguf")
    )


def unknown(reference: str, installed: Iterable[str]) -> NotFoundError:
    """Return the error for a name that is neither installed nor a recipe."""
    names = sorted({*installed, *RECIPES})
    near = difflib.get_close_matches(reference.lower(), names, n=3, cutoff=0.5)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return NotFoundError(
        f"no model named {reference or repr(reference)}",
        hint=f"{meant}known: {', '.join(names)}, hf:owner/repo/file.gguf, or a path to a .gguf or directory",
    )
