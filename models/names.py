"""Names of models as users type them, resolved to files to fetch."""

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
    """One model to install: ``name`` in the store and the facts that its GGUF must match."""

    name: str
    expected: Expected
    licence: Licence | None = None
    recipe: Recipe | None = None
    hub: HubFile | None = None


def store_name(reference: str) -> str:
    """The directory name for a recipe, an ``hf:`` reference or an installed name; nothing else is one."""
    if reference.startswith(HUB_PREFIX):
        return hub_name(parse_hub(reference))
    if reference.lower() in RECIPES:
        return reference.lower()
    if reference != slug(reference):
        raise unknown(reference, ())
    return reference


def hub_name(file: HubFile) -> str:
    """``owner--repo--file`` without the suffix."""
    return slug("--".join([*file.repo.split("/"), *file.file.removesuffix(".gguf").split("/")]))


def parse_hub(reference: str) -> HubFile:
    """``hf:owner/repo/file.gguf`` (the file may lie in folders). Raises UsageError on another form."""
    parts = reference.removeprefix(HUB_PREFIX).split("/")
    if len(parts) < 3 or not all(parts) or ".." in parts or not parts[-1].lower().endswith(".gguf"):
        raise UsageError(
            f"{reference} is not a file on the model hub", hint="the form is hf:owner/repo/file.gguf"
        )
    return HubFile("/".join(parts[:2]), "/".join(parts[2:]))


def job_for(reference: str, installed: Iterable[str]) -> Job:
    """The job for a recipe name or an ``hf:`` reference. Raises NotFoundError with near matches."""
    if reference.startswith(HUB_PREFIX):
        file = parse_hub(reference)
        return Job(hub_name(file), Expected(Path(file.file).name), hub=file)
    recipe = RECIPES.get(reference) or RECIPES.get(reference.lower())
    if recipe is None:
        raise unknown(reference, installed)
    return job_of(recipe)


def job_of(recipe: Recipe) -> Job:
    """The job for a recipe."""
    expected = Expected(recipe.file_name, recipe.bytes, recipe.sha256)
    return Job(recipe.name, expected, recipe.licence, recipe, recipe.hub)


def job_for_file(sha256: str, path: Path) -> Job:
    """The job for a local GGUF: named after the recipe it is, or after its file name and hash."""
    size = path.stat().st_size
    for recipe in RECIPES.values():
        if recipe.sha256 == sha256:
            return job_of(recipe)
    return Job(f"{slug(path.stem)}-{sha256[:12]}", Expected(path.name, size, sha256))


def looks_like_path(reference: str) -> bool:
    """Whether the user meant a file or directory rather than a model's name."""
    if reference.startswith(HUB_PREFIX):
        return False
    separators = {"/", os.sep, os.altsep or "/"}
    return (
        any(s in reference for s in separators)
        or reference.startswith(("~", "."))
        or reference.endswith(".gguf")
    )


def unknown(reference: str, installed: Iterable[str]) -> NotFoundError:
    """The error for a name that is neither installed nor a recipe."""
    names = sorted({*installed, *RECIPES})
    near = difflib.get_close_matches(reference.lower(), names, n=3, cutoff=0.5)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return NotFoundError(
        f"no model named {reference or repr(reference)}",
        hint=f"{meant}known: {', '.join(names)}, hf:owner/repo/file.gguf, or a path to a .gguf or directory",
    )
