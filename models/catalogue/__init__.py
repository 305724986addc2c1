"""Models that have a name, a file for each family. An entry says where the model is and what it is.

- Sizes of models without a hash are estimates, until the hub says theirs.
- Sampling values are those that the makers publish with a model.
- ``drafter`` names a smaller model with the same tokens, or one that was tried; pairing checks it when used.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType

from edgedec.models.catalogue.entry import USUAL_CONTEXT, Entry, Tested, estimated_memory, stated_context
from edgedec.models.catalogue.gemma3 import GEMMA3
from edgedec.models.catalogue.llama3 import LLAMA3
from edgedec.models.catalogue.phi import PHI
from edgedec.models.catalogue.qwen2 import QWEN2
from edgedec.models.catalogue.qwen3 import QWEN3
from edgedec.models.catalogue.smollm import SMOLLM
from edgedec.models.recipes import Recipe

__all__ = [
    "CATALOGUE",
    "DEFAULT_MODEL",
    "RECIPES",
    "USUAL_CONTEXT",
    "Entry",
    "Tested",
    "estimated_memory",
    "stated_context",
]

DEFAULT_MODEL = "smollm2-135m"
CATALOGUE: Mapping[str, Entry] = MappingProxyType(
    {entry.name: entry for entry in chain(SMOLLM, QWEN2, QWEN3, LLAMA3, GEMMA3, PHI)}
)
RECIPES: Mapping[str, Recipe] = MappingProxyType({name: entry.recipe for name, entry in CATALOGUE.items()})
