"""Turns a model's MTP layer into a drafter, and writes that into the model's bundle."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from edgedec.bundle.drafter_manifest import MTP
from edgedec.bundle.manifest import Manifest
from edgedec.bundle.mtp_facts import GRAPH, MtpFacts
from edgedec.core.progress import Progress, silent
from edgedec.disk.home import ARTIFACTS
from edgedec.export.draft_head.target import embedding_table, head_table
from edgedec.export.drafters.bundle import write_drafter
from edgedec.export.drafters.interface import NewDrafter
from edgedec.export.hyperparameters import Hyperparameters
from edgedec.export.interface import HEAD_K
from edgedec.export.model import ExpertsWeight, ExportModel, attributes
from edgedec.export.mtp.graph import build_graph
from edgedec.export.mtp.source import MtpSource
from edgedec.export.nextn import NEEDED
from edgedec.export.passes import DEFAULT_PASSES, run_passes
from edgedec.export.source import WeightSource
from edgedec.export.tensors import Tensors


def has_mtp(source: WeightSource, hyper: Hyperparameters) -> bool:
    """Whether the model has a layer that predicts further tokens, and its tensors."""
    return hyper.nextn > 0 and f"blk.{hyper.layers}.{NEEDED}" in source.tensors


def mtp_bytes(source: WeightSource, hyper: Hyperparameters) -> int:
    """Return the bytes of the layer's tensors, which its drafter keeps as they are; 0 for a model without.

    Raises UnsupportedError as ``write_mtp``.
    """
    if not has_mtp(source, hyper):
        return 0
    return sum(tensor.nbytes for tensor in MtpSource(source, hyper).tensors.values())


def write_mtp(
    source: WeightSource,
    hyper: Hyperparameters,
    bundle: Path,
    manifest: Manifest,
    progress: Progress = silent,
) -> None:
    """Write the drafter into ``bundle``, whose graph and weights are there; ``manifest`` is its own.

    It is made of the first layer for further tokens, which is applied to its own output for those beyond.
    Raises BadFileError, UnsupportedError for a layer with tables of its own, StorageError.
    """
    folder = bundle / ARTIFACTS / MTP
    folder.mkdir(parents=True)
    new = mtp_drafter(MtpSource(source, hyper), bundle, manifest)
    write_drafter(new, manifest, folder, progress=progress)


def mtp_drafter(own: MtpSource, bundle: Path, target: Manifest) -> NewDrafter:
    """Return the drafter of the layer ``own`` for the model in ``bundle``. Raises as ``write_mtp``."""
    hyper, table, head = own.hyper, embedding_table(bundle), head_table(bundle)
    model = build_graph(hyper, Tensors(own), table, head)
    run_passes(model, DEFAULT_PASSES)
    sizes = MtpFacts(
        hidden=hyper.hidden,
        heads=hyper.heads,
        kv_heads=hyper.kv_heads,
        head_dim=hyper.head_dim,
        ffn=hyper.ffn,
        ids=target.spec.vocab_size,
        head_k=min(HEAD_K, head.rows),
        table_offset=table.offset,
        table_tiles=table.tiles,
        table_tile_bytes=table.tile_bytes,
        head_offset=head.offset,
        head_tiles=head.tiles,
        head_tile_bytes=head.tile_bytes,
        **_experts(model),
    )
    return NewDrafter(
        kind=MTP, model=model, graph=GRAPH, source=own, stated=asdict(sizes), weights_first=True
    )


def _experts(model: ExportModel) -> dict[str, int]:
    """Return the sizes of the experts of which tokens take a few; none for a layer without."""
    for node in model.nodes:
        weight = model.weights.get(node.input[2]) if node.op_type == "Experts" else None
        if isinstance(weight, ExpertsWeight) and weight.count > 1:
            count, nbytes = weight.shape
            chosen = int(str(attributes(node)["chosen"]))
            width = weight.first[0].rows
            return {"experts": count, "chosen": chosen, "expert_width": width, "expert_bytes": nbytes}
    return {}
