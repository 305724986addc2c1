"""Installs an EAGLE-3 head of another trainer for a model: read, converted, and compared with its target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from edgedec.bundle.drafter_manifest import HEAD, MTP, DrafterManifest, Target
from edgedec.bundle.head_facts import HeadFacts
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.progress import Progress, silent
from edgedec.disk.home import ARTIFACTS
from edgedec.disk.listed_files import Scalar
from edgedec.export.assistant.install import install_assistant
from edgedec.export.assistant.source import is_assistant
from edgedec.export.draft_head.bundle import check_fits, export_head
from edgedec.export.draft_head.compare import has_targets_table
from edgedec.export.draft_head.weights import HeadWeights
from edgedec.export.drafter_files import drafter_in
from edgedec.export.eagle3.agreement import HeadAgreement, agreement, layers_to_measure
from edgedec.export.eagle3.gguf import read_head_gguf
from edgedec.export.eagle3.reading import ForeignHead, is_head_directory, read_head_directory
from edgedec.export.mtp.install import install_mtp
from edgedec.export.own_texts import CONTEXT, manifest_of_target, own_texts

QUANT = "q8_0"


def install_head(
    path: Path,
    bundle: Path,
    home: Path,
    *,
    facts: Mapping[str, Scalar] | None = None,
    progress: Progress = silent,
) -> DrafterManifest:
    """Read the head at ``path``, and install it for the model in ``bundle`` once it agrees with it.

    An assistant of Gemma 4 and an MTP layer are installed as such. ``facts`` go into the manifest. A drafter
    that was there before stays until then. Raises NotFoundError, BadFileError for damaged files and a head
    that agrees too seldom, UnsupportedError for one that the graph cannot express and for a model that hands
    out no hidden states, StorageError.
    """
    if is_assistant(path):
        return install_assistant(path, bundle, home, facts=facts, progress=progress)
    if not path.is_dir() and drafter_in(path) == MTP:
        return install_mtp(path, bundle, home, facts=facts, progress=progress)
    manifest = manifest_of_target(bundle, "a head")
    found = read_foreign_head(path, manifest)
    weights = without_copy(found.weights, bundle)
    check_fits(weights, manifest)

    def judged(folder: Path, sizes: HeadFacts) -> Mapping[str, Scalar]:
        measured = measure(folder, sizes, bundle, manifest, progress)
        measured.check(manifest.name)
        return {
            "made with": found.layout,
            **({"trained for": found.trained_for} if found.trained_for else {}),
            **(facts or {}),
            **measured.own.facts(),
        }

    place = home / ARTIFACTS / Target.of(manifest).short_hash / HEAD
    return export_head(weights, bundle, place, quant=QUANT, facts=judged, progress=progress)


def read_foreign_head(path: Path, manifest: Manifest) -> ForeignHead:
    """Read the head at ``path`` for the model of ``manifest``. Raises as ``install_head`` does."""
    if not path.is_dir():
        return read_head_gguf(path, manifest.spec)
    if not is_head_directory(path):
        raise BadFileError(f"{path} holds no EAGLE-3 head", hint="name its folder, with config.json")
    return read_head_directory(path, manifest.spec)


def without_copy(weights: HeadWeights, bundle: Path) -> HeadWeights:
    """Return the head without its embedding, if that is a copy of the target's: the target's is used then."""
    own = weights.embedding
    if own is None or not has_targets_table(own, bundle):
        return weights
    return replace(weights, embedding=None)


def measure(
    folder: Path, sizes: HeadFacts, bundle: Path, manifest: Manifest, progress: Progress = silent
) -> HeadAgreement:
    """Return how often the head in ``folder`` agrees with its target. Raises BackendError, BadFileError."""
    from edgedec.backends.onnx.head_forward import HeadModel
    from edgedec.loaded_model import load_model

    readings = layers_to_measure(sizes.read_from(manifest.spec.n_layers), manifest.spec.n_layers)
    layers = tuple(sorted({tap for reading in readings for tap in reading}))
    model = load_model(bundle, drafting=layers)
    if not {*layers} <= {*model.backend.caps.taps}:
        which = ", ".join(str(layer) for layer in layers if layer not in model.backend.caps.taps)
        raise UnsupportedError(f"{manifest.name} does not hand out the outputs of layers {which}")
    head = HeadModel(folder, bundle, sizes, manifest.spec.vocab_size, threads=model.threads)
    context = min(CONTEXT, manifest.spec.context_length)
    texts = own_texts(model, model.backend.forward(CacheConfig(context)), layers, progress)
    return agreement(head, texts, readings)
