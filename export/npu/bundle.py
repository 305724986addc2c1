"""Writes the bundle of a model for NPUs: a graph for each length of a pass, over one file of weights."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from edgedec.bundle.manifest import NPU_FACTS, WEIGHTS, Manifest
from edgedec.bundle.npu_facts import EmbeddingPlace, NpuFacts, graph_name
from edgedec.core.model_spec import refuse_unlike
from edgedec.core.progress import Progress
from edgedec.disk.files import atomic_path, storage_errors
from edgedec.export.bundle import Contents, model_spec, versions
from edgedec.export.calibration.evaluate import F32, Floats
from edgedec.export.calibration.moments import SAMPLE, sample
from edgedec.export.graph import build_graph
from edgedec.export.model import PackedWeight
from edgedec.export.npu.calibrate import Ranges, ranges_of, rotary_tables
from edgedec.export.npu.lower import lower
from edgedec.export.npu.plan import NpuPlan, Scheme
from edgedec.export.npu.quantise import quantise
from edgedec.export.npu.static_graph import StaticGraph
from edgedec.export.npu.weights import StoredWeights, store_weights
from edgedec.export.source import WeightSource
from edgedec.export.tensors import Tensors
from edgedec.export.texts import finish_bundle
from edgedec.export.writer import BundleWriter, check_space

"""The text on which ranges of values are measured where the user gives none: prose, code, dialogue."""


def write_npu_bundle(
    source: WeightSource,
    contents: Contents,
    out: Path,
    report: Progress,
    plan: NpuPlan,
) -> Manifest:
    """Measure ranges of values, quantise the graphs, and write the whole bundle or nothing.

    Raises UsageError for a text that is too short, BadFileError, UnsupportedError or StorageError.
    """
    model, texts = build_graph(contents.hyper, Tensors(source)), contents.texts
    spec = model_spec(contents, model)
    refuse_unlike(spec, "an NPU")
    scheme, text, lengths = plan.scheme, plan.text or SAMPLE.read_text(encoding="utf-8"), plan.lengths
    context = min(plan.context, contents.hyper.context)
    bos = texts.info.bos_id if texts.info.add_bos else None
    windows = sample(text, texts.json, bos, contents.hyper.context)
    graphs = {length: lower(model, length, context + max(lengths)) for length in sorted(lengths)}
    size = sum(one.weight.rows * one.weight.cols for one in _longest(graphs).matrices.values())
    check_space(out, 2 * size)
    floats = floats_of(source)
    ranges = ranges_of(model, floats, windows, lambda *at: report("calibration", *_of(size, *at)))
    where_from = {
        **contents.about.origin(),
        "calibration tokens": sum(map(len, windows)),
        "sha256 of the calibration text": hashlib.sha256(text.encode()).hexdigest(),
    }
    spec = replace(spec, context_length=context, n_window_layers=0, window=0, table_bytes=0)
    with atomic_path(out, directory=True) as directory:
        writer = BundleWriter(directory, {})
        with storage_errors(WEIGHTS):
            stored = store_weights(
                _longest(graphs), floats, directory / WEIGHTS, lambda *at: report("weights", *at)
            )
        writer.written(WEIGHTS)
        facts = _write_graphs(writer, graphs, ranges, scheme, stored)
        if plan.compiled:
            from edgedec.export.npu.compiled import compile_graphs

            for name in compile_graphs(
                directory, tuple(graphs), lambda *at: report("compile", *_of(size, *at))
            ):
                writer.written(name)
        writer.bytes(NPU_FACTS, facts.to_json().encode())
        made_by = versions("onnx", "onnxruntime", "numpy")
        return finish_bundle(writer, texts, spec, where_from, made_by, "npu")


def floats_of(source: WeightSource) -> Floats:
    """Return the function that reads rows of a matrix of ``source`` as floats."""

    def floats(weight: PackedWeight, start: int, stop: int) -> F32:
        return weight.tensor.values(source.rows(weight.tensor, start, stop), start)

    return floats


def _write_graphs(
    writer: BundleWriter,
    graphs: dict[int, StaticGraph],
    ranges: Ranges,
    scheme: Scheme,
    stored: StoredWeights,
) -> NpuFacts:
    formats = {}
    for length, graph in graphs.items():
        made = quantise(graph, ranges, scheme, stored.matrices)
        writer.bytes(graph_name(length), made.model.SerializeToString(deterministic=True))
        formats = made.formats
    graph = _longest(graphs)
    return NpuFacts(
        lengths=tuple(graphs),
        slots=graph.slots,
        group=graph.group,
        window=graph.window,
        formats=formats,
        rotary=rotary_tables(graph),
        embedding=EmbeddingPlace(stored.matrices[stored.table].offset, stored.scales, graph.embedding_factor),
        scheme=str(scheme),
    )


def _longest(graphs: dict[int, StaticGraph]) -> StaticGraph:
    return graphs[max(graphs)]


def _of(size: int, done: int, total: int) -> tuple[int, int]:
    """Return steps as bytes of weights, which progress is shown in."""
    return size * done // total, size
