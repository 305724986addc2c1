"""Turns a drafting head into a drafter for its target."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from edgedec.bundle.drafter_manifest import DRAFTER, HEAD, DrafterManifest
from edgedec.bundle.head_facts import GRAPH, TAPS, HeadFacts
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import UnsupportedError
from edgedec.core.progress import Progress, silent
from edgedec.disk.listed_files import Scalar
from edgedec.export.draft_head.graph import build_graph
from edgedec.export.draft_head.target import embedding_table, head_rows
from edgedec.export.draft_head.weights import FLAGS, HeadWeights
from edgedec.export.drafters.bundle import export_drafter
from edgedec.export.drafters.interface import NewDrafter
from edgedec.export.drafters.sources import FloatSource
from edgedec.export.huggingface.groups import parse_quant
from edgedec.export.interface import HEAD_K
from edgedec.export.model import ExportModel
from edgedec.export.passes.attach_bodies import AttachBodies
from edgedec.export.passes.externalise_weights import ExternaliseWeights
from edgedec.export.passes.infra import run_passes
from edgedec.export.stored import GraphMatrix
from edgedec.export.tensors import Tensors
from edgedec.export.writer import check_target


def export_head(
    weights: HeadWeights,
    target: Path,
    out: Path,
    *,
    quant: str = "q8_0",
    facts: Mapping[str, Scalar] | None = None,
    progress: Progress = silent,
) -> DrafterManifest:
    """Write the head ``weights`` for the bundle at ``target`` to the folder ``out``, and return its manifest.

    ``quant`` is as in ``edgedec.export.export_huggingface``: a format, or one for each of attn, mlp and head.
    ``facts`` go into the manifest: how it was made, its licence, what was measured. ``out`` must be new,
    empty or a drafter's folder; it is replaced in one step. Raises UnsupportedError for a target of another
    kind or shape, UsageError for ``quant`` and ``out``, BadFileError and StorageError.
    """
    manifest = Manifest.load(target)
    new = head_drafter(weights, target, manifest, quant)
    check_target(out, DRAFTER, "drafter")
    return export_drafter(new, manifest, out, lambda folder: facts or {}, progress)


def head_drafter(weights: HeadWeights, bundle: Path, target: Manifest, quant: str) -> NewDrafter:
    """Return the head as a drafter for the model in ``bundle``. Raises as ``export_head`` does."""
    check_fits(weights, target)
    formats = parse_quant(quant)
    table = embedding_table(bundle) if weights.embedding is None else None
    source = _source(weights, bundle, formats)
    model = build_graph(weights, Tensors(source), table)
    run_passes(model, (AttachBodies(), ExternaliseWeights()))
    sizes = _facts(weights, table, model)
    stated = {"quant": quant, **sizes.stated(), **_options(weights)}
    return NewDrafter(kind=HEAD, model=model, graph=GRAPH, source=source, stated=stated)


def check_fits(weights: HeadWeights, manifest: Manifest) -> None:
    """Raise UnsupportedError for a head that is for a model of another size."""
    spec = manifest.spec
    size = weights.tap_size or weights.hidden
    if size != spec.hidden_size:
        raise UnsupportedError(
            f"the drafting head is for hidden states of {size} numbers, and {spec.name} has "
            f"{spec.hidden_size}"
        )
    if weights.taps and max(weights.taps) >= spec.n_layers:
        raise UnsupportedError(
            f"the drafting head reads layer {max(weights.taps)}, and {spec.name} has {spec.n_layers} layers"
        )
    if weights.hidden != size and (weights.head is None or weights.embedding is None):
        raise UnsupportedError(
            f"the drafting head has {weights.hidden} numbers a token, {spec.name} has {size}, and it lacks "
            "an embedding or a head of its own"
        )
    if weights.keep[-1] >= spec.vocab_size:
        raise UnsupportedError(
            f"the drafting head predicts id {weights.keep[-1]}, and {spec.name} has {spec.vocab_size} tokens"
        )
    if weights.embedding is not None and weights.embedding.shape[0] > spec.vocab_size:
        raise UnsupportedError(
            f"the drafting head embeds {weights.embedding.shape[0]} tokens, and {spec.name} has "
            f"{spec.vocab_size}"
        )


def _source(weights: HeadWeights, target: Path, formats: Mapping[str, str]) -> FloatSource:
    arrays = {name: getattr(weights, name) for name in weights.shapes() if name != "rope_factors"}
    if weights.head is None:
        arrays["head"] = head_rows(target, weights.keep)
    if weights.norm_each:
        parts = np.split(arrays.pop("norm_taps"), TAPS)
        arrays |= {f"norm_taps.{at}": part for at, part in enumerate(parts)}
    streamed = {} if weights.embedding is None else {"embedding": weights.embedding}
    matrices = [*streamed, *(name for name in arrays if arrays[name].ndim == 2)]
    return FloatSource(arrays, {name: formats[_role(name)] for name in matrices}, streamed)


def _options(weights: HeadWeights) -> dict[str, Scalar]:
    """Return what a graph does not state by itself: the rotary base, and what differs from our own heads."""
    return {"rope_base": weights.rope_base, **{name: True for name in FLAGS if getattr(weights, name)}}


def _facts(weights: HeadWeights, table: GraphMatrix | None, model: ExportModel) -> HeadFacts:
    ids = int(weights.keep.size)
    own = model.weights.get("embedding")
    tiles, tile_bytes = (table.tiles, table.tile_bytes) if table else own.shape if own else (0, 0)
    return HeadFacts(
        hidden=weights.hidden,
        heads=weights.heads,
        kv_heads=weights.kv_heads,
        head_dim=weights.head_dim,
        ffn=weights.ffn,
        ids=ids,
        head_k=min(HEAD_K, ids),
        table_offset=table.offset if table else 0,
        table_tiles=tiles,
        table_tile_bytes=tile_bytes,
        fc_bytes=model.weights["fc"].nbytes,
        head_bytes=model.weights["head"].nbytes,
        tap_size=weights.tap_size or weights.hidden,
        own_table=int(table is None),
        taps=weights.taps,
    )


def _role(name: str) -> str:
    return "head" if name in ("head", "embedding") else "attn" if name.startswith("attn_") else "mlp"
