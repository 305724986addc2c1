"""Writes the bundle of a model that was read from any kind of source."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from edgedec.bundle.exits import taps_of
from edgedec.bundle.manifest import DRAFTING, WEIGHTS, FileEntry, Manifest, Scalar
from edgedec.bundle.preset import Preset
from edgedec.core.cache_kinds import CacheKind
from edgedec.core.errors import TemplateError
from edgedec.core.experts import Experts
from edgedec.core.model_spec import ModelSpec
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.version import __version__
from edgedec.disk.files import atomic_path, storage_errors
from edgedec.export.drafting import drafting_graph
from edgedec.export.graph import build_graph
from edgedec.export.hyperparameters import Hyperparameters
from edgedec.export.interface import HEAD_K
from edgedec.export.model import ExpertsWeight, ExportModel
from edgedec.export.mtp.bundle import has_mtp, mtp_bytes, write_mtp
from edgedec.export.notes import LEFT_OUT
from edgedec.export.passes import DEFAULT_PASSES, run_passes
from edgedec.export.source import WeightSource
from edgedec.export.tensors import Tensors
from edgedec.export.texts import TextFiles, finish_bundle
from edgedec.export.writer import BundleWriter, check_space, table_bytes, weights_bytes
from edgedec.text.template_program import write_program


@dataclass(frozen=True, slots=True)
class About:
    """The manifest's facts about a model beside its sizes.

    ``origin`` is called after all checks, because it hashes the source.
    """

    name: str
    preset: Preset
    origin: Callable[[], Mapping[str, Scalar]]


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of a bundle except its weights.

    ``vocab`` is in tokens.
    """

    about: About
    hyper: Hyperparameters
    vocab: int
    texts: TextFiles


def write_bundle(
    source: WeightSource,
    contents: Contents,
    out: Path,
    report: Progress,
) -> Manifest:
    """Build and fuse the graph, and write the whole bundle or nothing.

    Raises BadFileError, UnsupportedError or StorageError.
    """
    model = build_graph(contents.hyper, Tensors(source))
    run_passes(model, DEFAULT_PASSES)
    needed = weights_bytes(model) + mtp_bytes(source, contents.hyper)
    check_space(out, needed + len(contents.texts.json.encode()))
    where_from = {**contents.about.origin(), **_left_out(source, contents.hyper)}
    with atomic_path(out, directory=True) as directory:
        writer = BundleWriter(directory, {})
        writer.weights(model, source, report)  # before the graphs, which state checks of it
        manifest = _write_beside(writer, contents, model, where_from)
        if has_mtp(source, contents.hyper):
            write_mtp(source, contents.hyper, directory, manifest, report)
    return manifest


def _write_beside(
    writer: BundleWriter, contents: Contents, model: ExportModel, where_from: Mapping[str, Scalar]
) -> Manifest:
    """Write all files but the weights."""
    spec, texts = model_spec(contents, model), contents.texts
    facts = {"architecture": spec.architecture, "format": "edgedec-bundle"}
    writer.model(model, spec.name, facts)
    drafting, exits = _drafting(model, spec)
    writer.model(drafting, spec.name, facts | exits, DRAFTING)
    manifest = finish_bundle(writer, texts, spec, where_from, versions("onnx", "gguf", "numpy"))
    if texts.template is not None:
        with suppress(TemplateError):  # a broken one is told where it is used
            write_program(writer.directory, texts.template)
    return manifest


def bytes_beside_weights(contents: Contents, model: ExportModel) -> int:
    """Return the bytes of a bundle's files but the weights, without facts about its source."""
    with tempfile.TemporaryDirectory(prefix="edgedec-export-") as folder, storage_errors(folder):
        weights = FileEntry(weights_bytes(model), hashlib.sha256().hexdigest())
        _write_beside(BundleWriter(Path(folder), {WEIGHTS: weights}), contents, model, {})
        return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())


def _left_out(source: WeightSource, hyper: Hyperparameters) -> dict[str, Scalar]:
    """Return the manifest's fact about tensors for pictures and sound."""
    count = sum(name.startswith(hyper.architecture.foreign) for name in source.tensors)
    return {LEFT_OUT: f"{count} tensors for pictures and sound"} if count else {}


def _drafting(model: ExportModel, spec: ModelSpec) -> tuple[ExportModel, dict[str, str]]:
    """Return the graph for drafting and its metadata: without exits where layers share or keep states."""
    if not spec.caches:
        return drafting_graph(model, spec.n_layers, spec.hidden_size)
    taps = tuple(sorted({*taps_of(spec.n_layers), spec.n_layers - 1}))
    return drafting_graph(model, spec.n_layers, spec.hidden_size, exits=(), taps=taps)


def printable_name(text: str) -> str:
    """Return a model's name as one printable line of at most 200 characters."""
    return "".join(char for char in text if char.isprintable())[:200] or "model"


def model_spec(contents: Contents, model: ExportModel) -> ModelSpec:
    """Return the sizes of a model whose graph is ``model``, with its weights."""
    hyper, info = contents.hyper, contents.texts.info
    return ModelSpec(
        name=contents.about.name,
        architecture=hyper.architecture.name,
        vocab_size=contents.vocab,
        n_layers=hyper.layers,
        n_heads=hyper.heads,
        n_kv_heads=hyper.kv_heads,
        head_dim=hyper.head_dim,
        hidden_size=hyper.hidden,
        context_length=hyper.context,
        bos_id=info.bos_id,
        eos_ids=info.eos_ids,
        head_k=min(HEAD_K, contents.vocab),
        ffn_size=hyper.ffn,
        n_window_layers=sum(window > 0 for window in hyper.windows),
        window=max(hyper.windows, default=0),
        table_bytes=table_bytes(model),
        caches=_caches(hyper),
        experts=_experts(hyper, model),
    )


def _caches(hyper: Hyperparameters) -> tuple[CacheKind, ...]:
    """Return the kinds of cache, () where the other fields say them."""
    if not hyper.by_layer and not hyper.states:
        return ()
    keys = (hyper.keys_of(local=False), hyper.keys_of(local=True))
    return (*(kind for kind in keys if kind.layers), *hyper.states)


def _experts(hyper: Hyperparameters, model: ExportModel) -> Experts | None:
    """Return the experts of which tokens take a few: not those that compute every token."""
    if (sizes := hyper.experts) is None:
        return None
    weights = [one for one in model.weights.values() if isinstance(one, ExpertsWeight) and one.count > 1]
    slot, nbytes = max(one.shape[1] for one in weights), sum(one.nbytes for one in weights)
    facts = hyper.architecture.experts
    shared = hyper.ffn if facts and facts.beside else sizes.shared
    return Experts(len(weights), sizes.count, sizes.chosen, sizes.width, slot, nbytes, shared)


def versions(*packages: str) -> dict[str, Scalar]:
    """Return the version of EdgeDec and the installed one of each package, or "unknown"."""
    found: dict[str, Scalar] = {"edgedec": __version__}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "unknown"
    return found
