"""The trained head of a target: found by the hash of its weights, checked, and opened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.core.drafter_manifest import HEAD, DrafterManifest
from edgedec.core.errors import BadFileError, EdgeDecError, NotFoundError
from edgedec.core.head_facts import TAPS, HeadFacts
from edgedec.core.progress import Notice
from edgedec.memory.footprint import HEAD_CONTEXT
from edgedec.runtime.companions import companion
from edgedec.runtime.drafting import Drafting

if TYPE_CHECKING:
    from edgedec.backends.onnx.head_forward import HeadModel
    from edgedec.core.forward import Forward
    from edgedec.draft.head import HeadDrafter
    from edgedec.memory.ledger import Ledger
    from edgedec.runtime.loaded_model import LoadedModel, LoadedModels


def with_head(models: LoadedModels, drafting: Drafting, home: Path | None, notice: Notice) -> LoadedModels:
    """Return ``models`` with the head of the target opened, if ``drafting`` names it.

    One that cannot be used is left out, and ``notice`` says why. Raises NotFoundError where there is none.
    """
    model = models.target
    if HEAD not in drafting.of_target:
        return models
    try:
        folder = companion(model.manifest, HEAD, home)
        if folder and model.bundle:
            return replace(models, head=_opened(folder, model.bundle, model))
    except EdgeDecError as error:
        notice(f"{model.name} runs without its trained head: {error.message}")
        return models
    raise NotFoundError(f"{model.name} has no trained head", hint="train one, or use other drafters")


def head_drafter(head: HeadModel, forward: Forward, ledger: Ledger) -> HeadDrafter:
    """Make the drafter of ``head`` for the target that runs in ``forward``; its memory is of ``ledger``."""
    from edgedec.draft.head import HeadDrafter

    return HeadDrafter(head.forward(min(forward.capacity, HEAD_CONTEXT), ledger), forward.caps.hidden)


def _opened(folder: Path, bundle: Path, model: LoadedModel) -> HeadModel:
    from edgedec.backends.onnx.head_forward import HeadModel

    facts = HeadFacts.of(DrafterManifest.load(folder, verify=False).facts)  # it is verified already
    width = model.backend.caps.hidden
    if not width:
        raise BadFileError("its bundle hands out no hidden states", hint="pull or export the model again")
    if width != TAPS * facts.hidden:
        raise BadFileError(f"it reads {TAPS * facts.hidden} numbers a token, and the model has {width}")
    return HeadModel(folder, bundle, facts, model.spec.vocab_size, threads=model.threads)
