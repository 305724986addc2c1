"""The trained head of a target as a drafter. Its cache holds at most 1024 positions."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.bundle.drafter_manifest import HEAD
from edgedec.bundle.head_facts import CONTEXT, TAPS, HeadFacts
from edgedec.core.errors import BadFileError, EdgeDecError, UnsupportedError
from edgedec.drafters.artifact_kind import ArtifactKind, facts_in, layer_bytes
from edgedec.drafters.interface import BuildContext, OpenContext, OpenDrafter, SearchContext
from edgedec.memory.footprint import DrafterMemory, MemoryChoice

if TYPE_CHECKING:
    from edgedec.backends.onnx.head_forward import HeadModel
    from edgedec.draft import Drafter
    from edgedec.loaded_model import LoadedModel


class HeadKind(ArtifactKind):
    """Drafts with the trained head that belongs to the target."""

    name = HEAD
    title = "trained head"
    remedy = "train one, or use other drafters"

    def taps(self, name: str, search: SearchContext) -> tuple[int, ...]:
        """See ``DrafterKind.taps``."""
        folder = self.folder(search)
        try:
            return HeadFacts.of(facts_in(folder)).taps if folder else ()
        except EdgeDecError:
            return ()  # opening it says why

    def opened(self, folder: Path, bundle: Path, opening: OpenContext) -> OpenDrafter:
        """See ``ArtifactKind.opened``."""
        from edgedec.backends.onnx.head_forward import HeadModel

        facts, model = HeadFacts.of(facts_in(folder)), opening.target
        _check_fits(facts, model)
        return _OpenHead(HeadModel(folder, bundle, facts, model.spec.vocab_size, threads=model.threads))


class _OpenHead(OpenDrafter):
    def __init__(self, head: HeadModel) -> None:
        self._head = head
        why = "the trained head that drafts: it guesses ahead"
        rest = partial(rest_bytes, head.facts, head.threads)
        self.memory = DrafterMemory("head", why, head.weight_bytes, rest)

    def build(self, setting: BuildContext) -> list[Drafter]:
        from edgedec.draft.head import HeadDrafter

        forward = setting.forward
        cache = self._head.forward(min(forward.capacity, CONTEXT), setting.ledger)
        facts = self._head.facts
        return [HeadDrafter(cache, facts.read_from(forward.spec.n_layers))]


def rest_bytes(facts: HeadFacts, threads: int, choice: MemoryChoice, sequences: int = 1) -> int:
    """Return the bytes of a head beside its weights."""
    return layer_bytes(facts.spec(CONTEXT), facts.width, threads, min(choice.context, CONTEXT))


def _check_fits(facts: HeadFacts, model: LoadedModel) -> None:
    if not model.backend.caps.taps and model.backend.device_bytes():
        raise UnsupportedError("its layers run on two devices", hint="run all of them on one")
    taps = facts.read_from(model.spec.n_layers)
    if not set(taps) <= set(model.backend.caps.taps):
        which = f"the outputs of layers {', '.join(map(str, taps))}" if facts.taps else "hidden states"
        raise BadFileError(f"its bundle does not hand out {which}", hint="pull or export the model again")
    if facts.width != TAPS * model.spec.hidden_size:
        width = f"{facts.width} numbers a token, and the model has {TAPS * model.spec.hidden_size}"
        raise BadFileError(f"it reads {width}")
