"""The assistant of a target (Gemma 4) as a drafter. It reads keys and values in the target's cache.

Memory: its weights, and the scratch and buffers of a step.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.bundle.assistant_facts import AssistantFacts
from edgedec.bundle.drafter_manifest import ASSISTANT
from edgedec.core.errors import UnsupportedError
from edgedec.drafters.artifact_kind import ArtifactKind, check_last_layer, facts_in
from edgedec.drafters.interface import BuildContext, OpenContext, OpenDrafter
from edgedec.memory.footprint import DrafterMemory, MemoryChoice

if TYPE_CHECKING:
    from edgedec.backends.onnx.assistant_forward import AssistantModel
    from edgedec.draft import Drafter


class AssistantKind(ArtifactKind):
    """Drafts with the small model that the target's makers trained to read its cache."""

    name = ASSISTANT
    title = "assistant"
    remedy = "import one, or use other drafters"

    def opened(self, folder: Path, bundle: Path, opening: OpenContext) -> OpenDrafter:
        """See ``ArtifactKind.opened``."""
        from edgedec.backends.onnx.assistant_forward import AssistantModel

        facts, model = AssistantFacts.of(facts_in(folder)), opening.target
        if model.backend.device_bytes():
            raise UnsupportedError("its KV cache cannot be read there by another graph")
        check_last_layer(model, facts.target_hidden, facts.ids)
        return _OpenAssistant(AssistantModel(folder, bundle, facts, threads=model.threads))


class _OpenAssistant(OpenDrafter):
    def __init__(self, model: AssistantModel) -> None:
        self._model = model
        why = "the assistant of the model's makers: it guesses ahead"
        rest = partial(rest_bytes, model.facts, model.threads)
        self.memory = DrafterMemory(ASSISTANT, why, model.weight_bytes, rest)

    def build(self, setting: BuildContext) -> list[Drafter]:
        from edgedec.draft.assistant import AssistantDrafter

        forward = setting.forward
        assert forward.lent is not None, "a model whose last layer can be tapped lends its cache on the CPU"
        steps = self._model.steps(forward.lent, setting.ledger)
        return [AssistantDrafter(steps, forward, forward.spec.n_layers - 1)]


def rest_bytes(facts: AssistantFacts, threads: int, choice: MemoryChoice, sequences: int = 1) -> int:
    """Return the bytes of an assistant beside its weights: scratch, buffers, the state of a token."""
    from edgedec.backends.onnx.assistant_forward import scratch

    buffers = 4 * (5 * facts.target_hidden + 4 * facts.head_k + 4) + 4 * 8
    return scratch(facts, threads, choice.context) + buffers
