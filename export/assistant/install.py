"""Installs an assistant for a model: read, converted, and compared with what its target writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgedec.bundle.assistant_facts import AssistantFacts
from edgedec.bundle.drafter_manifest import ASSISTANT, DrafterManifest, Target
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import UnsupportedError
from edgedec.core.progress import Progress, silent
from edgedec.core.rows import Rows
from edgedec.disk.home import ARTIFACTS
from edgedec.disk.listed_files import Scalar
from edgedec.export.assistant.bundle import export_assistant
from edgedec.export.assistant.sizes import MODEL_TYPE
from edgedec.export.own_texts import CONTEXT, LEAST, TokenAgreement, manifest_of_target, own_texts


def install_assistant(
    path: Path,
    bundle: Path,
    home: Path,
    *,
    facts: Mapping[str, Scalar] | None = None,
    least: float = LEAST,
    progress: Progress = silent,
) -> DrafterManifest:
    """Read the assistant at ``path``, and install it for the model in ``bundle`` once it agrees with it.

    ``facts`` go into the manifest. An assistant that was there before stays until then. Raises as
    ``export_assistant`` does, UnsupportedError for a model that it cannot draft for, and BadFileError for an
    assistant that predicts fewer than ``least`` of the tokens that the model writes.
    """
    manifest = manifest_of_target(bundle, "an assistant")

    def judged(folder: Path, sizes: AssistantFacts) -> Mapping[str, Scalar]:
        found = agreement(folder, sizes, bundle, progress)
        found.check("the assistant", manifest.name, least)
        return {"made with": MODEL_TYPE, **(facts or {}), **found.facts()}

    place = home / ARTIFACTS / Target.of(manifest).short_hash / ASSISTANT
    return export_assistant(path, bundle, place, facts=judged, progress=progress)


def agreement(
    folder: Path, sizes: AssistantFacts, bundle: Path, progress: Progress = silent
) -> TokenAgreement:
    """Return how often the assistant in ``folder`` agrees with its target.

    Raises BadFileError and BackendError.
    """
    from edgedec.backends.onnx.assistant_forward import AssistantModel
    from edgedec.loaded_model import load_model

    last = Manifest.load(bundle).spec.n_layers - 1
    model = load_model(bundle, drafting=(last,))
    if not model.backend.caps.lends or last not in model.backend.caps.taps:
        raise UnsupportedError(f"{model.name} does not let an assistant read its KV cache")
    forward = model.backend.forward(CacheConfig(min(CONTEXT, model.spec.context_length)))
    steps = AssistantModel(folder, bundle, sizes, threads=model.threads).steps(forward.lent)
    hits = count = 0
    for text in own_texts(model, forward, (last,), progress):
        forward.rewind(0)
        forward.extend(text.tokens[: text.prompt], rows=Rows(()))
        for place in range(text.prompt, len(text.tokens) - 1):
            found = steps.step(text.tokens[place], position=place, slots=place, tap=text.hidden[place - 1])
            hits += int(found.rows.ids[0, 0] == text.tokens[place + 1])
            count += 1
            forward.extend(text.tokens[place : place + 1], rows=Rows(()))
    return TokenAgreement(hits, count)
