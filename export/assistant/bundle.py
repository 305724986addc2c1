"""Writes the bundle of an assistant: ``assistant.onnx``, ``weights.bin`` and ``drafter.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from edgedec.bundle.assistant_facts import GRAPH, AssistantFacts
from edgedec.bundle.drafter_manifest import ASSISTANT, DrafterManifest, Target
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_kinds import Keys
from edgedec.core.errors import UnsupportedError
from edgedec.core.progress import Progress, silent
from edgedec.disk.files import atomic_path
from edgedec.disk.listed_files import Scalar
from edgedec.export.assistant.graph import build_graph
from edgedec.export.assistant.sizes import AssistantSizes
from edgedec.export.assistant.source import TABLE, AssistantSource, open_assistant
from edgedec.export.draft_head.target import EmbeddingTable, embedding_table, last_norm
from edgedec.export.interface import HEAD_K
from edgedec.export.model import CACHE, RINGS, ExportModel
from edgedec.export.passes.attach_bodies import AttachBodies
from edgedec.export.passes.externalise_weights import ExternaliseWeights
from edgedec.export.passes.infra import run_passes
from edgedec.export.tensors import Tensors
from edgedec.export.writer import BundleWriter, check_space, weights_bytes

FactsOf = Callable[[Path, AssistantFacts], Mapping[str, Scalar]]
"""Returns facts about the assistant that was written to a folder, or raises if it is not to stay."""


def export_assistant(
    source: Path,
    target: Path,
    out: Path,
    *,
    quant: str = "q8_0",
    facts: FactsOf | None = None,
    progress: Progress = silent,
) -> DrafterManifest:
    """Write the assistant at ``source`` for the bundle at ``target`` to ``out``, and return its manifest.

    ``source``: a GGUF file, or a directory of safetensors whose matrices get the format ``quant``. ``facts``
    go into the manifest. ``out`` is replaced in one step. Raises NotFoundError, BadFileError, StorageError,
    and UnsupportedError for a target that it does not fit.
    """
    manifest, table = Manifest.load(target), embedding_table(target)
    with open_assistant(source, quant) as weights:
        caches = _caches(weights.sizes, manifest)
        model = build_graph(
            weights.sizes, Tensors(weights), table, last_norm(target), caches, weights.ordering
        )
        run_passes(model, (AttachBodies(), ExternaliseWeights()))
        check_space(out, weights_bytes(model))
        with atomic_path(out, directory=True) as directory:
            writer = BundleWriter(directory, {})
            graph = model.to_onnx(ASSISTANT, {"format": "edgedec-drafter"})
            writer.bytes(GRAPH, graph.SerializeToString(deterministic=True))
            writer.weights(model, weights, progress)
            sizes = _facts(weights, table, model)
            stated = {**(facts(directory, sizes) if facts else {}), **asdict(sizes)}
            made = DrafterManifest(ASSISTANT, Target.of(manifest), writer.files, stated)
            DrafterManifest.from_json(made.to_json())
            made.save(directory)
    return made


def _caches(sizes: AssistantSizes, manifest: Manifest) -> dict[str, Keys]:
    """Return the keys of the target that the layers read, by the graph's inputs. Raises UnsupportedError."""
    spec = manifest.spec
    if sizes.target_hidden != spec.hidden_size:
        raise UnsupportedError(
            f"the assistant is for hidden states of {sizes.target_hidden} numbers, and {spec.name} has "
            f"{spec.hidden_size}"
        )
    keys = {kind.name: kind for kind in spec.kinds if isinstance(kind, Keys)}
    dims = {CACHE: sizes.head_dim, RINGS: sizes.local_head_dim}
    used = {RINGS if window else CACHE for window in sizes.windows}
    for name in sorted(used):
        if name not in keys:
            raise UnsupportedError(f"{spec.name} has no layers of a kind that the assistant reads")
        if keys[name].head_dim != dims[name] or sizes.heads % keys[name].kv_heads:
            raise UnsupportedError(
                f"the assistant reads keys of {dims[name]} numbers, and {spec.name} has "
                f"{keys[name].head_dim} in {keys[name].kv_heads} heads"
            )
    return {name: one for name, one in keys.items() if name in used}


def _facts(source: AssistantSource, table: EmbeddingTable, model: ExportModel) -> AssistantFacts:
    sizes, vocab = source.sizes, source.tensors[TABLE].shape[0]
    scored = vocab // sizes.centroids * sizes.chosen if sizes.centroids else vocab
    return AssistantFacts(
        target_hidden=sizes.target_hidden,
        hidden=sizes.hidden,
        heads=sizes.heads,
        head_dim=max(sizes.head_dim, sizes.local_head_dim),
        ffn=sizes.ffn,
        ids=vocab,
        scored=scored,
        head_k=min(HEAD_K, scored),
        head_bytes=model.weights[TABLE].nbytes,
        table_offset=table.offset,
        table_tiles=table.tiles,
        table_tile_bytes=table.tile_bytes,
    )
