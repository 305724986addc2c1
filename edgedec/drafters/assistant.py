"""The assistant of a target (Gemma 4) as a drafter: found, checked, opened and built.

Memory: its weights, and the scratch and buffers of a step. It reads keys and values in the target's cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.core.assistant_facts import AssistantFacts
from edgedec.core.drafter_manifest import ASSISTANT, DrafterManifest, Target
from edgedec.core.errors import BadFileError, EdgeDecError, NotFoundError, UnsupportedError
from edgedec.draft.assistant import AssistantDrafter
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
from edgedec.memory.footprint import DrafterMemory, MemoryChoice

if TYPE_CHECKING:
    from edgedec.backends.onnx.assistant_forward import AssistantModel
    from edgedec.draft import Drafter
    from edgedec.loaded_model import LoadedModel


class AssistantKind(DrafterKind):
    """Drafts with the small model that the target's makers trained to read its cache."""

    name = ASSISTANT
    parts = True

    def unnamed(self, search: SearchContext, chosen: Sequence[DrafterSpec]) -> Iterator[Offer]:
        """Yield it where the target has one."""
        if search.batch or not search.has_parts:
            return
        found = artifacts(Target.of(search.manifest), search.home, search.bundle)
        if any(one.kind == ASSISTANT for one in found):
            yield Offer(ASSISTANT)

    def taps(self, name: str, search: SearchContext) -> tuple[int, ...]:
        """See ``DrafterKind.taps``."""
        return (search.manifest.spec.n_layers - 1,)

    def open(self, name: str, opening: OpenContext) -> OpenDrafter | None:
        """See ``DrafterKind.open``."""
        model = opening.target
        try:
            folder = artifact(model.manifest, ASSISTANT, opening.home, model.bundle)
            if folder and model.bundle:
                return _OpenAssistant(_assistant(folder, model.bundle, model))
        except EdgeDecError as error:
            opening.notice(f"{model.name} runs without its assistant: {error.message}")
            return None
        raise NotFoundError(f"{model.name} has no assistant", hint="import one, or use other drafters")


class _OpenAssistant(OpenDrafter):
    def __init__(self, model: AssistantModel) -> None:
        self._model = model
        why = "the assistant of the model's makers: it guesses ahead"
        rest = partial(rest_bytes, model.facts, model.threads)
        self.memory = DrafterMemory(ASSISTANT, why, model.weight_bytes, rest)

    def build(self, setting: BuildContext) -> list[Drafter]:
        forward = setting.forward
        assert forward is not None
        steps = self._model.steps(forward.lent, setting.ledger)
        return [AssistantDrafter(steps, forward, forward.spec.n_layers - 1)]


def rest_bytes(facts: AssistantFacts, threads: int, choice: MemoryChoice, sequences: int = 1) -> int:
    """Return the bytes of an assistant beside its weights: scratch, buffers, the state of a token."""
    from edgedec.backends.onnx.assistant_forward import scratch

    buffers = 4 * (5 * facts.target_hidden + 4 * facts.head_k + 4) + 4 * 8
    return scratch(facts, threads, choice.context) + buffers


def _assistant(folder: Path, bundle: Path, model: LoadedModel) -> AssistantModel:
    from edgedec.backends.onnx.assistant_forward import AssistantModel

    facts = AssistantFacts.of(DrafterManifest.load(folder, verify=False).facts)  # it is verified already
    caps = model.backend.caps
    if not caps.lends:
        raise UnsupportedError("its KV cache cannot be read there by another graph")
    if model.spec.n_layers - 1 not in caps.taps:
        raise BadFileError("its bundle hands out no hidden states", hint="pull or export the model again")
    if (facts.target_hidden, facts.ids) != (model.spec.hidden_size, model.spec.vocab_size):
        raise BadFileError(
            f"it is for a model of {facts.target_hidden} numbers a token and {facts.ids} tokens"
        )
    return AssistantModel(folder, bundle, facts, threads=model.threads)
