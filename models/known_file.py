"""The recipe of a GGUF file that lies anywhere: by its hash, or by the name in its metadata."""

from __future__ import annotations

import re
from pathlib import Path

from edgedec.bundle.preset import OFF, Preset
from edgedec.core.errors import EdgeDecError
from edgedec.disk.files import sha256_of
from edgedec.models.catalogue import RECIPES
from edgedec.models.recipes import Recipe


def same_file(path: Path) -> Recipe | None:
    """Return the recipe of this very file; None if there is none. It is read where its size is a recipe's."""
    nbytes = path.stat().st_size
    alike = [one for one in RECIPES.values() if one.sha256 and one.bytes == nbytes]
    digest = sha256_of(path) if alike else None
    return next((one for one in alike if one.sha256 == digest), None)


def preset_by_name(path: Path) -> Preset | None:
    """Return the preset of the recipe whose model the metadata names, in any quantisation; None without one.

    None, too, for a file whose header cannot be read: the export says why.
    """
    from edgedec.export.gguf_source import open_gguf

    try:
        with open_gguf(path) as gguf:
            named = str(gguf.metadata.get("general.name", ""))
    except EdgeDecError:
        return None
    for one in RECIPES.values():
        if named and _bare(one.title.partition(",")[0]) == _bare(named) and one.preset != OFF:
            return one.preset
    return None


def _bare(title: str) -> str:
    """Return a title without what is written differently by different programs.

    >>> _bare("Qwen2.5 Coder 1.5B Instruct") == _bare("qwen2.5-coder-1.5b-instruct-GGUF")
    True
    """
    return re.sub(r"[^a-z0-9]", "", title.lower()).removesuffix("gguf")
