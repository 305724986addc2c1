"""The trained head of a target as a drafter: found by the hash of its weights, checked, opened and built.

Memory: its weights; a cache of at most 1024 positions; the scratch of its passes; hidden states of 128
tokens, W numbers each; buffers of 4 (W + 3 D + 4 K + 14) P' bytes, with K entries a row and P' = 64 tokens
in a pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.core.drafter_manifest import HEAD, DrafterManifest, Target
from edgedec.core.errors import BadFileError, EdgeDecError, NotFoundError, UnsupportedError
from edgedec.core.head_facts import CONTEXT, LONGEST_PASS, TAPS, WAITING, HeadFacts
from edgedec.drafters.artifacts import artifact, artifacts
from edgedec.drafters.interface import (
    BuildContext,
    DrafterKind,
    DrafterSpec,
    Offer,
    OpenContext,
    OpenDrafter,
    SearchContext,
)
from edgedec.memory.footprint import DrafterMemory, MemoryChoice, cache_bytes, scratch_bytes

if TYPE_CHECKING:
    from edgedec.backends.onnx.head_forward import HeadModel
    from edgedec.draft import Drafter
    from edgedec.loaded_model import LoadedModel


class HeadKind(DrafterKind):
    """Drafts with the trained head that belongs to the target."""

    name = HEAD
    parts = True

    def unnamed(self, search: SearchContext, chosen: Sequence[DrafterSpec]) -> Iterator[Offer]:
        """Yield the head, where there is one."""
        if search.batch or not search.has_parts:
            return
        found = artifacts(Target.of(search.manifest), search.home, search.bundle)
        if any(one.kind == HEAD for one in found):
            yield Offer(HEAD)

    def taps(self, name: str, search: SearchContext) -> tuple[int, ...]:
        """See ``DrafterKind.taps``."""
        found = artifacts(Target.of(search.manifest), search.home, search.bundle)
        folder = next((one.path for one in found if one.kind == HEAD), None)
        try:
            return HeadFacts.of(DrafterManifest.load(folder, verify=False).facts).taps if folder else ()
        except EdgeDecError:
            return ()  # opening it says why

    def open(self, name: str, opening: OpenContext) -> OpenDrafter | None:
        """See ``DrafterKind.open``."""
        model = opening.target
        try:
            folder = artifact(model.manifest, HEAD, opening.home, model.bundle)
            if folder and model.bundle:
                return _OpenHead(_head_model(folder, model.bundle, model))
        except EdgeDecError as error:
            opening.notice(f"{model.name} runs without its trained head: {error.message}")
            return None
        raise NotFoundError(f"{model.name} has no trained head", hint="train one, or use other drafters")


class _OpenHead(OpenDrafter):
    def __init__(self, head: HeadModel) -> None:
        self._head = head
        why = "the trained head that drafts: it guesses ahead"
        rest = partial(rest_bytes, head.facts, head.threads)
        self.memory = DrafterMemory("head", why, head.weight_bytes, rest)

    def build(self, setting: BuildContext) -> list[Drafter]:
        from edgedec.draft.head import HeadDrafter

        forward = setting.forward
        assert forward is not None
        cache = self._head.forward(min(forward.capacity, CONTEXT), setting.ledger)
        facts = self._head.facts
        return [HeadDrafter(cache, facts.read_from(forward.spec.n_layers), facts.width)]


def rest_bytes(facts: HeadFacts, threads: int, choice: MemoryChoice, sequences: int = 1) -> int:
    """Return the bytes of a head beside its weights: cache, scratch, buffers, hidden states that wait."""
    context = min(choice.context, CONTEXT)
    longest, spec = min(LONGEST_PASS, context), facts.spec(CONTEXT)
    buffers = longest * (4 * (facts.width + 3 * spec.hidden_size + 4 * spec.head_k + 4) + 5 * 8)
    waiting = WAITING * facts.width * 4
    cache = cache_bytes(spec, context, "fp16", longest)
    return cache + scratch_bytes(spec, threads, longest, context) + buffers + waiting


def _head_model(folder: Path, bundle: Path, model: LoadedModel) -> HeadModel:
    from edgedec.backends.onnx.head_forward import HeadModel

    facts = HeadFacts.of(DrafterManifest.load(folder, verify=False).facts)  # it is verified already
    if not model.backend.caps.taps and model.backend.device_bytes():
        raise UnsupportedError("its layers run on two devices", hint="run all of them on one")
    taps = facts.read_from(model.spec.n_layers)
    if not set(taps) <= set(model.backend.caps.taps):
        which = f"the outputs of layers {', '.join(map(str, taps))}" if facts.taps else "hidden states"
        raise BadFileError(f"its bundle does not hand out {which}", hint="pull or export the model again")
    if facts.width != TAPS * model.spec.hidden_size:
        width = f"{facts.width} numbers a token, and the model has {TAPS * model.spec.hidden_size}"
        raise BadFileError(f"it reads {width}")
    return HeadModel(folder, bundle, facts, model.spec.vocab_size, threads=model.threads)
