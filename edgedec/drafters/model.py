"""A small model as a drafter: named, or known to suit the target and installed.

Memory: its weights, a cache of the target's context, and the scratch of its passes, which are short.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.bundle.exits import added_taps, exits_of, taps_of
from edgedec.bundle.head_facts import TAPS
from edgedec.bundle.manifest import DRAFTING, TOKENIZER, WEIGHTS, Manifest
from edgedec.core.errors import BackendError, BadFileError, EdgeDecError, UnsupportedError
from edgedec.core.forward import Forward
from edgedec.core.ledger import SLACK
from edgedec.core_lib.turns import ALONE, Turns
from edgedec.draft import Drafter
from edgedec.drafters.interface import (
    BuildContext,
    DrafterKind,
    DrafterSpec,
    Estimate,
    Offer,
    OpenContext,
    OpenDrafter,
    SearchContext,
)
from edgedec.drafters.trim import is_trimmed, trimmed_head
from edgedec.loaded_model import LoadedModel
from edgedec.memory.footprint import (
    DrafterMemory,
    ExpertMemory,
    MemoryChoice,
    ModelMemory,
    draft_model_bytes,
)
from edgedec.system.memory import TELLS_MAPPINGS
from edgedec.text.bpe_table import FILE_NAME as TOKENIZER_TABLE

if TYPE_CHECKING:
    from edgedec.draft.model import ModelDrafter
    from edgedec.draft.trimmed import TrimmedHead
    from edgedec.drafters.shared_model import SharedModel

_LOADING_BYTES, _LOADING_BYTES_PER_TOKENIZER_BYTE = 4_000_000, 7
"""Bytes that opening a small model takes beyond its weights: twice those of SmolLM2 beside another model."""
_NO_ROOM = "its experts have no room in memory, and those of a model that drafts are read from there"


class ModelKind(DrafterKind):
    """Drafts with a small model; it takes every name that no other kind takes."""

    name = "model"
    batches = True

    def takes(self, name: str) -> bool:
        """See ``DrafterKind.takes``."""
        return True

    def unnamed(self, search: SearchContext, chosen: Sequence[DrafterSpec]) -> Iterator[Offer]:
        """Yield the small model that takes turns with the target, or else the one known to suit it.

        A draft model that is named drafts alone.
        """
        if search.switch is not None:
            yield Offer(search.switch)
        elif search.known is not None and not any(one.kind == self.name for one in chosen):
            yield Offer(search.known.name, search.missing())

    def estimated(self, search: SearchContext, bundle: Path, threads: int) -> Estimate | None:
        """See ``DrafterKind.estimated``: by the sizes that its manifest states."""
        try:
            manifest = Manifest.load(bundle)
        except EdgeDecError:
            return None  # opening it says why
        if WEIGHTS not in manifest.files:
            return None
        spec = manifest.spec
        trimmed = DRAFTING in manifest.files and is_trimmed(manifest, search.home, bundle)
        exits = len(exits_of(spec.n_layers)) if trimmed else 0
        hidden = len(taps_of(spec.n_layers)) * spec.hidden_size if trimmed else 0
        weights = manifest.files[WEIGHTS].bytes - _copied(spec.table_bytes)
        tokenizer = manifest.files.get(TOKENIZER)
        loading = _LOADING_BYTES + (_LOADING_BYTES_PER_TOKENIZER_BYTE * tokenizer.bytes if tokenizer else 0)
        table = bundle / TOKENIZER_TABLE
        mapped = table.stat().st_size if table.is_file() else 0
        return Estimate(draft_memory(ModelMemory(spec, weights, threads, hidden, exits), mapped), loading)

    def weight_bytes(self, name: str, search: SearchContext, bundle: Path | None) -> int:
        """See ``DrafterKind.weight_bytes``. A model that nobody named has to find room by itself."""
        found = self.estimated(search, bundle, 1) if bundle else None
        return found.memory.weights if found else 0

    def open(self, name: str, opening: OpenContext) -> OpenDrafter | None:
        """See ``DrafterKind.open``."""
        from edgedec.drafters.pairing import paired, require, same_tokenizer

        target = opening.target
        try:
            draft = opening.load(name)
            if draft.backend.experts is not None:  # their slots are in no memory plan
                raise UnsupportedError(_NO_ROOM)
            if not same_tokenizer(target, draft):
                require(paired(target.tokenizer, draft.tokenizer), target.name, name)
        except (BackendError, BadFileError, UnsupportedError) as error:
            # Not the error itself: its frames hold the memory of half a model.
            opening.notice(f"{target.name} runs without {name}, which drafts for it: {error.message}")
            return None
        if draft.backend.caps.sequences < opening.conversations:
            why = f"{name} runs in {draft.isa}, one conversation at a time"
            opening.notice(f"{target.name} runs without {name}: {why}")
            return None
        return _OpenModel(name, draft, trimmed_head(draft, target, opening.home, opening.notice))


class _OpenModel(OpenDrafter):
    def __init__(self, name: str, draft: LoadedModel, trimmed: TrimmedHead | None) -> None:
        self._name, self._draft, self._trimmed = name, draft, trimmed
        self._forward: Forward | None = None
        self._shared: SharedModel | None = None
        self._beside: TrimmedHead | None = None
        """That of another conversation of the batch."""
        self.models = (draft,)
        self.memory = draft_memory(model_memory(draft), draft.tokenizer.mapped_bytes)

    def build(self, setting: BuildContext) -> list[Drafter]:
        """Make a drafter. The KV cache is allocated at the first build, and shared by engines in turns.

        In a batch each conversation has its part of it.
        """
        forward, turns = self._place(setting)
        trimmed = self._trims(setting) if forward.caps.trims else None
        return [model_drafter(self._name, setting.target, self._draft, forward, trimmed, turns)]

    def close(self) -> None:
        """See ``OpenDrafter.close``."""
        if self._shared is not None:
            self._shared.close()

    def _trims(self, setting: BuildContext) -> TrimmedHead | None:
        """Return the trimmed head of a conversation. Those of a batch share its ids."""
        if self._trimmed is None:
            return None
        batch = setting.place is not None
        if batch and self._beside:
            return self._beside.beside()
        trimmed = self._trimmed.again(shared=batch)
        setting.ledger.hold(trimmed.kept, SLACK, trimmed.nbytes())
        self._beside = trimmed if batch else None
        return trimmed

    def _place(self, setting: BuildContext) -> tuple[Forward, Turns]:
        """Return the forward of a conversation, and its turns."""
        place = setting.place
        if place:
            if self._shared is None:
                from edgedec.drafters.shared_model import SharedModel

                cache = setting.cache(self._draft)
                self._shared = SharedModel(self._draft.backend, place.count, cache, setting.ledger)
            return self._shared.place(place.number, place.clock)
        if self._forward is None:
            self._forward = self._draft.backend.forward(setting.cache(self._draft), setting.ledger)
        return self._forward, ALONE


def model_memory(model: LoadedModel) -> ModelMemory:
    """Return the facts of a loaded model that decide its memory."""
    caps = model.backend.caps
    weights = model.backend.weight_bytes - _copied(model.spec.table_bytes)
    hidden = TAPS * model.spec.hidden_size if caps.taps else 0
    exits = len(caps.exits) + added_taps(caps.taps, caps.exits, model.spec.n_layers)
    store = model.backend.experts
    experts = ExpertMemory(store.experts.slot_bytes, store.least, store.most) if store else None
    return ModelMemory(model.backend.pass_spec, weights, model.threads, hidden, exits, experts)


def draft_memory(model: ModelMemory, table: int = 0) -> DrafterMemory:
    """Return the memory of ``model`` as a drafter, whose tokenizer maps a table of ``table`` bytes."""
    why = "the second model, which drafts: it guesses ahead"
    return DrafterMemory("drafter", why, model.weights + table, partial(rest_bytes, model))


def rest_bytes(model: ModelMemory, choice: MemoryChoice, sequences: int) -> int:
    """Return the bytes of a draft model beside its weights: cache and scratch."""
    from edgedec.drafters.shared_model import SHARED_TOKENS

    return draft_model_bytes(model, choice, sequences, SHARED_TOKENS)


def model_drafter(
    name: str,
    target: LoadedModel,
    draft: LoadedModel,
    forward: Forward,
    trimmed: TrimmedHead | None = None,
    turns: Turns = ALONE,
) -> ModelDrafter:
    """Make a drafter for ``target`` of ``draft``, which runs in ``forward``, with ``trimmed`` for its head.

    Raises UnsupportedError if the vocabularies share too little.
    """
    from edgedec.draft.model import ModelDrafter
    from edgedec.drafters.pairing import bridge, paired, require, same_tokenizer

    same = same_tokenizer(target, draft)
    if not same:
        pairing = paired(target.tokenizer, draft.tokenizer)
        require(pairing, target.manifest.name, name)
        same = pairing.same
    return ModelDrafter(name, forward, bridge(target, draft, same=same), trimmed, turns)


def _copied(table_bytes: int) -> int:
    """Return the bytes of the embedding table that are copied row by row, and never mapped as a whole."""
    return table_bytes if TELLS_MAPPINGS else 0
