"""The list of models that the app shows, out of EdgeDec's catalogue."""

from __future__ import annotations

import json

from building.tools import BuildError

ASSET = "assets/models.json"
FORMAT = "edgedec-models"


def listed() -> bytes:
    """Return the models to chat with, with the bytes that each has, takes, and takes at the least."""
    try:
        from edgedec.core.errors import EdgeDecError
        from edgedec.models.catalogue import CATALOGUE
    except ImportError as error:
        raise BuildError(
            f"the build needs EdgeDec itself, with this Python: pip install . ({error})"
        ) from error
    try:
        models = [
            {
                "name": name,
                "title": entry.recipe.title,
                "good_for": entry.good_for,
                "bytes": entry.recipe.bytes,
                "memory": entry.memory(),
                "least": entry.least_memory(),
                "experts": entry.spec.experts is not None,
            }
            for name, entry in CATALOGUE.items()
            if entry.chats and entry.base is None
        ]
    except EdgeDecError as error:
        raise BuildError(f"the catalogue cannot be read: {error}") from error
    return json.dumps({"format": FORMAT, "models": models}, ensure_ascii=False, indent=0).encode()
