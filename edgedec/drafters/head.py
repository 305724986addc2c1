"""The trained head of a target: found by the hash of its weights, checked, and opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.core.drafter_manifest import DrafterManifest
from edgedec.core.errors import BadFileError
from edgedec.core.head_facts import TAPS, HeadFacts
from edgedec.memory.footprint import HEAD_CONTEXT

if TYPE_CHECKING:
    from edgedec.backends.onnx.head_forward import HeadModel
    from edgedec.core.forward import Forward
    from edgedec.draft.head import HeadDrafter
    from edgedec.loaded_model import LoadedModel
    from edgedec.memory.ledger import Ledger


def head_drafter(head: HeadModel, forward: Forward, ledger: Ledger) -> HeadDrafter:
    """Make the drafter of ``head`` for the target that runs in ``forward``; its memory is of ``ledger``."""
    from edgedec.draft.head import HeadDrafter

    return HeadDrafter(head.forward(min(forward.capacity, HEAD_CONTEXT), ledger), forward.caps.hidden)


def opened_head(folder: Path, bundle: Path, model: LoadedModel) -> HeadModel:
    from edgedec.backends.onnx.head_forward import HeadModel

    facts = HeadFacts.of(DrafterManifest.load(folder, verify=False).facts)  # it is verified already
    width = model.backend.caps.hidden
    if not width:
        raise BadFileError("its bundle hands out no hidden states", hint="pull or export the model again")
    if width != TAPS * facts.hidden:
        raise BadFileError(f"it reads {TAPS * facts.hidden} numbers a token, and the model has {width}")
    return HeadModel(folder, bundle, facts, model.spec.vocab_size, threads=model.threads)
