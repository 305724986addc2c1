"""The MTP layer of a target as a drafter: found in the target's bundle, checked, opened and built.

Memory: its weights; a cache as long as the target's; the scratch of its passes; their buffers; hidden states
of 128 tokens. The target's embedding and head are the target's weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.core.drafter_manifest import MTP, DrafterManifest, Target
from edgedec.core.errors import BadFileError, EdgeDecError, NotFoundError
from edgedec.core.head_facts import WAITING
from edgedec.core.mtp_facts import LONGEST_PASS, MtpFacts
from edgedec.draft.mtp import MORE_SLOTS, MtpDrafter
from edgedec.draft.trimmed import TrimmedHead
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
from edgedec.drafters.trim import trimmed_layer
from edgedec.memory.footprint import DrafterMemory, MemoryChoice, cache_bytes, scratch_bytes

if TYPE_CHECKING:
    from edgedec.backends.onnx.mtp_forward import MtpModel
    from edgedec.draft import Drafter
    from edgedec.loaded_model import LoadedModel


class MtpKind(DrafterKind):
    """Drafts with the layer of the target that predicts further tokens."""

    name = MTP
    parts = True

    def unnamed(self, search: SearchContext, chosen: Sequence[DrafterSpec]) -> Iterator[Offer]:
        """Yield it where the target's bundle has one."""
        if search.batch or not search.has_parts:
            return
        found = artifacts(Target.of(search.manifest), search.home, search.bundle)
        if any(one.kind == MTP for one in found):
            yield Offer(MTP)

    def taps(self, name: str, search: SearchContext) -> tuple[int, ...]:
        """See ``DrafterKind.taps``."""
        return (search.manifest.spec.n_layers - 1,)

    def open(self, name: str, opening: OpenContext) -> OpenDrafter | None:
        """See ``DrafterKind.open``."""
        model = opening.target
        try:
            folder = artifact(model.manifest, MTP, opening.home, model.bundle)
            if folder and model.bundle:
                layer = _mtp_model(folder, model.bundle, model)
                return _OpenMtp(layer, _trimmed(layer, model, opening))
        except EdgeDecError as error:
            opening.notice(f"{model.name} runs without its MTP layer: {error.message}")
            return None
        raise NotFoundError(
            f"{model.name} has no MTP layer", hint="use other drafters, or export a checkpoint that has one"
        )


class _OpenMtp(OpenDrafter):
    def __init__(self, layer: MtpModel, trimmed: TrimmedHead | None) -> None:
        self._layer, self._trimmed = layer, trimmed
        why = "the model's own layer for further tokens: it guesses ahead"
        rest = partial(rest_bytes, layer.facts, layer.threads, trimmed.nbytes() if trimmed else 0)
        self.memory = DrafterMemory(MTP, why, layer.weight_bytes, rest)

    def build(self, setting: BuildContext) -> list[Drafter]:
        forward = setting.forward
        assert forward is not None
        cache = self._layer.forward(forward.capacity + MORE_SLOTS, setting.ledger)
        trimmed = self._trimmed.again() if self._trimmed else None
        return [MtpDrafter(cache, forward.spec.n_layers - 1, forward.spec.hidden_size, trimmed)]


def rest_bytes(facts: MtpFacts, threads: int, trimmed: int, choice: MemoryChoice, sequences: int = 1) -> int:
    """Return the bytes beside its weights: cache, scratch, buffers, hidden states that wait, kept ids."""
    context = choice.context + MORE_SLOTS
    longest, spec = min(LONGEST_PASS, context), facts.spec(context)
    buffers = longest * (4 * (4 * spec.hidden_size + 4 * spec.head_k + 4) + 5 * 8) + 8 * facts.ids
    waiting = WAITING * spec.hidden_size * 4
    cache = cache_bytes(spec, context, "fp16", longest)
    return cache + scratch_bytes(spec, threads, longest, context) + buffers + waiting + trimmed


def _mtp_model(folder: Path, bundle: Path, model: LoadedModel) -> MtpModel:
    from edgedec.backends.onnx.mtp_forward import MtpModel

    facts = MtpFacts.of(DrafterManifest.load(folder, verify=False).facts)  # it is verified already
    if model.spec.n_layers - 1 not in model.backend.caps.taps:
        raise BadFileError("its bundle hands out no hidden states", hint="pull or export the model again")
    if (facts.hidden, facts.ids) != (model.spec.hidden_size, model.spec.vocab_size):
        raise BadFileError(f"it is for a model of {facts.hidden} numbers a token and {facts.ids} tokens")
    return MtpModel(folder, bundle, facts, threads=model.threads)


def _trimmed(layer: MtpModel, model: LoadedModel, opening: OpenContext) -> TrimmedHead | None:
    """Return the target's trimmed head; without one, and with a damaged one after a notice, None."""
    try:
        return trimmed_layer(model, layer.weight_bytes, layer.facts.head.nbytes, opening.home)
    except EdgeDecError as error:
        opening.notice(f"{model.name} drafts with its full head: {error}")
        return None
