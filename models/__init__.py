"""Get models and keep them: recipes by name, resumable downloads, the store of bundles."""

from __future__ import annotations

from edgedec.models.recipes import DEFAULT_MODEL, RECIPES, HubFile, Licence, Recipe, Wheel
from edgedec.models.store import Installed, Store

__all__ = [
    "DEFAULT_MODEL",
    "RECIPES",
    "HubFile",
    "Installed",
    "Licence",
    "Recipe",
    "Store",
    "Wheel",
]
