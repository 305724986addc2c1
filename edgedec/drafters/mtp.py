"""The MTP layer of a target as a drafter, whose cache is as long as the target's.

The target's embedding and head are the target's weights.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.bundle.drafter_manifest import MTP
from edgedec.bundle.mtp_facts import MtpFacts
from edgedec.core.errors import EdgeDecError
from edgedec.drafters.artifact_kind import ArtifactKind, check_last_layer, facts_in, layer_bytes
from edgedec.drafters.interface import BuildContext, OpenContext, OpenDrafter
from edgedec.drafters.trim import trimmed_layer
from edgedec.memory.footprint import DrafterMemory, MemoryChoice

if TYPE_CHECKING:
    from edgedec.backends.onnx.mtp_forward import MtpModel
    from edgedec.draft import Drafter
    from edgedec.draft.trimmed import TrimmedHead
    from edgedec.loaded_model import LoadedModel


class MtpKind(ArtifactKind):
    """Drafts with the layer of the target that predicts further tokens."""

    name = MTP
    title = "MTP layer"
    remedy = "use other drafters, or export a checkpoint that has one"

    def opened(self, folder: Path, bundle: Path, opening: OpenContext) -> OpenDrafter:
        """See ``ArtifactKind.opened``."""
        from edgedec.backends.onnx.mtp_forward import MtpModel

        facts, model = MtpFacts.of(facts_in(folder)), opening.target
        check_last_layer(model, facts.hidden, facts.ids)
        layer = MtpModel(folder, bundle, facts, threads=model.threads)
        return _OpenMtp(layer, _trimmed(layer, model, opening))


class _OpenMtp(OpenDrafter):
    def __init__(self, layer: MtpModel, trimmed: TrimmedHead | None) -> None:
        self._layer, self._trimmed = layer, trimmed
        experts = "; all its experts are in memory" if layer.facts.experts else ""
        why = f"the model's own layer for further tokens: it guesses ahead{experts}"
        rest = partial(rest_bytes, layer.facts, layer.threads, trimmed.nbytes() if trimmed else 0)
        self.memory = DrafterMemory(MTP, why, layer.weight_bytes, rest)

    def build(self, setting: BuildContext) -> list[Drafter]:
        from edgedec.draft.mtp import MtpDrafter, slots_for

        forward = setting.forward
        cache = self._layer.forward(slots_for(forward.capacity), setting.ledger)
        trimmed = self._trimmed.again() if self._trimmed else None
        return [MtpDrafter(cache, forward.spec.n_layers - 1, trimmed)]


def rest_bytes(facts: MtpFacts, threads: int, trimmed: int, choice: MemoryChoice, sequences: int = 1) -> int:
    """Return the bytes beside its weights, with ids that its head is trimmed to."""
    from edgedec.draft.mtp import slots_for

    context = slots_for(choice.context)
    return layer_bytes(facts.spec(context), facts.hidden, threads, context) + 8 * facts.ids + trimmed


def _trimmed(layer: MtpModel, model: LoadedModel, opening: OpenContext) -> TrimmedHead | None:
    """Return the target's trimmed head; without one, and with a damaged one after a notice, None."""
    try:
        own = layer.facts.spec(1).read_bytes(layer.weight_bytes)
        return trimmed_layer(model, own, layer.facts.head.nbytes, opening.home)
    except EdgeDecError as error:
        opening.notice(f"{model.name} drafts with its full head: {error}")
        return None
