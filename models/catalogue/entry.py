"""The form of a catalogue entry: how to fetch a model, and the facts to choose it by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgedec.core.model_spec import ModelSpec
from edgedec.core.preset import OFF, Preset
from edgedec.models.recipes import HubFile, Licence, Recipe

Tested = Literal["real", "twin"]
"""How the tests know a model: the model itself runs, or a small random one with the same features."""

USUAL_CONTEXT = 4096
"""Tokens for which the memory of a model is stated."""
_THREADS = 4
_PROCESS_BYTES, _PROCESS_BYTES_PER_TOKEN = 70_000_000, 330
"""Python, libraries and graph; and the tokenizer, per entry of the vocabulary. As measured with the three
models that are tested for real."""

APACHE = Licence("Apache-2.0", "https://www.apache.org/licenses/LICENSE-2.0")
MIT = Licence("MIT", "https://opensource.org/license/mit")


def on_hub(name: str, title: str, bytes: int, licence: Licence, hub: HubFile, preset: Preset = OFF) -> Recipe:
    """Return the recipe of a file on the hub, which states its hash; ``bytes`` is an estimate."""
    return Recipe(name, title, None, bytes, None, licence, hub=hub, preset=preset)


@dataclass(frozen=True, slots=True)
class Entry:
    """A model of the catalogue."""

    recipe: Recipe
    spec: ModelSpec
    """The sizes that its bundle will state. Ids of special tokens are left out: the file has them."""
    parameters: int
    vocabulary: str
    """Models with the same name here have the same tokens."""
    good_for: str
    tested: Tested
    drafter: str | None = None
    """Name of a smaller model that can draft for this one: of the same vocabulary, or tried with it."""
    chats: bool = True
    """False for a base model, which continues texts."""
    thinks: bool = False
    """Whether replies may begin with a part that thinks."""
    gated: bool = False
    """Whether the hub asks for an account that has accepted the licence."""

    @property
    def name(self) -> str:
        return self.recipe.name

    @property
    def exact(self) -> bool:
        """Whether the size of the download is known to the byte, and its hash with it."""
        return self.recipe.sha256 is not None

    def memory(self) -> int:
        """Estimate the bytes that a conversation has resident at most, in ``stated_context`` tokens."""
        return estimated_memory(self.spec, self.recipe.bytes - self.spec.table_bytes)


def estimated_memory(spec: ModelSpec, weights: int) -> int:
    """Estimate the bytes that a conversation has resident at most, in ``stated_context`` tokens.

    By the formulas of a memory plan; only the process is not measured. ``weights``: bytes that a pass reads.
    """
    from edgedec.memory.footprint import MemoryChoice, MemoryFacts, ModelMemory, footprint

    process = _PROCESS_BYTES + _PROCESS_BYTES_PER_TOKEN * spec.vocab_size
    facts = MemoryFacts(ModelMemory(spec, weights, _THREADS), process)
    return sum(footprint(facts, MemoryChoice(stated_context(spec))).values())


def stated_context(spec: ModelSpec) -> int:
    """Return the tokens for which memory is stated: the usual number, or the model's fewer."""
    return min(USUAL_CONTEXT, spec.context_length)
