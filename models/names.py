"""Resolve names of models, as users type them, to files to fetch."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.core.errors import NotFoundError, Remedy
from edgedec.core.quick_dataclass import dataclass
from edgedec.models.catalogue import RECIPES
from edgedec.models.hub_names import FORMS, hub_name, may_name_hub, names_hub, parse_hub
from edgedec.models.layout import slug
from edgedec.models.recipes import HubFile, Licence, Recipe
from edgedec.models.sources.verify import Expected

if TYPE_CHECKING:
    from edgedec.models.sources.hub_listing import Located

_NEAR = 3
"""Most names that are suggested."""


@dataclass(frozen=True, slots=True)
class Job:
    """One model to install: its name in the store, and facts that its GGUF must match."""

    name: str
    expected: Expected
    licence: Licence | None = None
    recipe: Recipe | None = None
    hub: HubFile | None = None
    located: Located | None = None


def recipe_name(reference: str) -> str | None:
    """Return the name of a recipe as users type it, or as other programs spell it; None for others.

    Those put a colon before the size, and mean the version that chats.

    >>> recipe_name("Llama3.2:1B"), recipe_name("gemma3:270m"), recipe_name("mistral:7b")
    ('llama3.2-1b', 'gemma3-270m-it', None)
    """
    name = reference.lower()
    tagged = name.replace(":", "-", 1)
    chats = [f"{tagged}-it"] if tagged != name else []
    return next((one for one in (*chats, tagged) if one in RECIPES), None)


def adapter_of(name: str) -> str | None:
    """Return the SHA-256 of the adapter that makes the model of a recipe; None for any other."""
    recipe = RECIPES.get(name)
    return recipe.adapter if recipe else None


def store_name(reference: str) -> str:
    """Return the directory name for a recipe or an installed name.

    Raises NotFoundError for any other text.
    """
    if (name := recipe_name(reference)) is not None:
        return name
    if reference != slug(reference):
        raise unknown(reference, ())
    return reference


def hub_file(reference: str) -> HubFile | None:
    """Return the file on the hub, or the choice of one, that a reference names; None for other references.

    Raises UsageError for one that can only mean the hub and has a wrong form.
    """
    from edgedec.models.encoder_names import encoder_file  # an installed model is opened without it

    if (known := encoder_file(reference)) is not None:
        return known
    return parse_hub(reference) if names_hub(reference) or may_name_hub(reference) else None


def job_for(reference: str, installed: Iterable[str]) -> Job:
    """Return the job for a recipe. Raises NotFoundError, with names that are near."""
    name = recipe_name(reference)
    if name is None:
        raise unknown(reference, installed)
    return job_of(RECIPES[name])


def job_for_hub(file: HubFile, *, local: bool = False) -> Job:
    """Return the job for a file on the hub; raises as ``locate``.

    Without a file name the hub is asked, and of a file in parts for the others. ``local``: the file is here.
    """
    from edgedec.export.gguf_parts import part_name

    if file.file and (local or part_name(file.file) is None):
        return Job(hub_name(file), Expected(Path(file.file).name), hub=file)
    from edgedec.models.sources.hub_listing import locate

    located = locate(file)
    name = hub_name(replace(file, file=located.file.file))
    if located.file.file:
        stated = located.files[0]
        expected = Expected(Path(stated.path).name, stated.bytes, stated.sha256)
    else:
        expected = Expected(name)
    return Job(name, expected, located.licence, hub=located.file, located=located)


def job_of(recipe: Recipe) -> Job:
    """Return the job for a recipe. Without a hash its bytes are an estimate, and nothing is held to them."""
    file_name = recipe.file_name or f"{recipe.name}.gguf"
    expected = Expected(file_name, recipe.bytes if recipe.sha256 else None, recipe.sha256)
    return Job(recipe.name, expected, recipe.licence, recipe, recipe.hub)


def job_for_file(sha256: str, path: Path) -> Job:
    """Return the job for a local GGUF, named after its recipe, else after its file name and hash.

    ``path`` is the first part of a file in parts.
    """
    from edgedec.export.gguf_parts import model_stem

    size = path.stat().st_size
    for recipe in RECIPES.values():
        if recipe.sha256 == sha256:
            return job_of(recipe)
    return Job(f"{slug(model_stem(path))}-{sha256[:12]}", Expected(path.name, size, sha256))


def looks_like_path(reference: str) -> bool:
    """Return whether a reference has the form of a path rather than of a model's name."""
    if names_hub(reference):
        return False
    if may_name_hub(reference):
        return exists(reference)
    separators = {"/", os.sep, os.altsep or "/"}
    return (
        any(s in reference for s in separators)
        or reference.startswith(("~", "."))
        or reference.endswith(".gguf")
    )


def exists(reference: str) -> bool:
    """Return whether a reference is the path of a file or folder; any text may be asked about."""
    try:
        return Path(reference).exists()
    except (OSError, ValueError):  # too long, or no path at all
        return False


def near(text: str, names: Iterable[str], first: Collection[str] = ()) -> list[str]:
    """Return up to three names that begin with a text, else that contain it, else that are like it.

    Names in ``first`` come before others that do so equally well.

    >>> near("qwen", ["smollm2-135m", "qwen2.5-coder-1.5b"])
    ['qwen2.5-coder-1.5b']
    """
    wanted, known = text.lower(), sorted({*names, *first}, key=lambda name: (name not in first, name))
    if not wanted:
        return []
    begin = [name for name in known if name.lower().startswith(wanted)]
    contain = [name for name in known if len(wanted) > 1 and wanted in name.lower()]
    if begin or contain:
        return (begin or contain)[:_NEAR]
    import difflib

    return difflib.get_close_matches(wanted, known, n=_NEAR, cutoff=0.5)


def not_installed(reference: str, installed: Iterable[str]) -> NotFoundError:
    """Return the error for a name that no installed model has; it lists those that are installed."""
    names = sorted(installed)
    hint = f"installed: {', '.join(names)}" if names else "no model is installed"
    message = f"{reference or repr(reference)} is not installed"
    return NotFoundError(message, hint=hint, near=near(reference, names))


def unknown(reference: str, installed: Iterable[str]) -> NotFoundError:
    """Return the error for a name that is neither installed nor a recipe. It suggests no mere drafter."""
    to_choose = [name for name, recipe in RECIPES.items() if not recipe.adapter]
    return NotFoundError(
        f"no model named {reference or repr(reference)}",
        hint=f"a model has the name of a recipe, {FORMS}, or is a path to a .gguf or directory",
        remedy=Remedy("known_model"),
        near=near(reference.partition(":")[0], to_choose, first=set(installed)),
    )
