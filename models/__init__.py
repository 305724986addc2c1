"""Get models and keep them: recipes by name, resumable downloads, the store of bundles."""

from __future__ import annotations

from edgedec.models.catalogue import CATALOGUE, DEFAULT_MODEL, RECIPES, Entry
from edgedec.models.recipes import HubFile, Licence, Recipe, Wheel
from edgedec.models.store import Installed, Store

__all__ = [
    "CATALOGUE",
    "DEFAULT_MODEL",
    "RECIPES",
    "Entry",
    "HubFile",
    "Installed",
    "Licence",
    "Recipe",
    "Store",
    "Wheel",
]
