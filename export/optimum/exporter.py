"""Turns a Hugging Face model directory into a bundle with optimum (the extra of that name)."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from edgedec.bundle.manifest import MODEL, WEIGHTS, Manifest
from edgedec.core.errors import Remedy, UnsupportedError, UsageError
from edgedec.core.model_spec import ModelSpec
from edgedec.core.progress import Progress, silent
from edgedec.disk.files import atomic_path
from edgedec.disk.installing import pip_install
from edgedec.export.bundle import printable_name, versions
from edgedec.export.fields import Fields
from edgedec.export.huggingface.config import FAMILIES, check_unquantised
from edgedec.export.huggingface.exporter import check_directories, origin_of
from edgedec.export.huggingface.files import read_object
from edgedec.export.huggingface.shards import read_shards, weight_files
from edgedec.export.huggingface.tokenizer import CONFIG, read_tokenizer
from edgedec.export.interface import HEAD_K
from edgedec.export.interrupt import terminations_raise
from edgedec.export.optimum.graph import CacheShape, add_head, cache_shape
from edgedec.export.optimum.worker import FACTS, GRAPH
from edgedec.export.texts import finish_bundle
from edgedec.export.writer import BundleWriter, check_space, check_target

PACKAGE = "optimum-onnx"
_LIBRARIES = ("onnx", PACKAGE, "optimum", "transformers", "torch")
WORKER = [sys.executable, "-P", "-m", "edgedec.export.optimum.worker"]
"""Command that runs optimum; -P keeps a file torch.py in the working directory from being imported."""
_MADE = "optimum"
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
_POLL_S = 0.5
_INLINE_BYTES = 1024
"""Smaller tensors stay in the graph: ONNX Runtime needs shapes and similar constants to load it."""


def export_with_optimum(
    source: Path,
    out: Path,
    *,
    quant: str | None = None,
    name: str | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Export a model of an architecture outside ``FAMILIES``; see ``edgedec.export.export_huggingface``."""
    report = progress or silent
    check_target(out)
    check_directories(source, out)
    config = _checked_config(source, quant)
    kind = str(config["model_type"])
    texts = read_tokenizer(source, Fields(CONFIG, config).size("vocab_size"))
    files = weight_files(source)
    floats = sum(4 * math.prod(tensor.shape) for tensor in read_shards(files).values())
    check_space(out, 2 * floats)  # for a moment, both optimum's file and the bundle's exist
    title = name or printable_name(source.resolve().name)
    with terminations_raise(), atomic_path(out, directory=True) as directory:
        writer = BundleWriter(directory, {})
        facts = _convert(source, kind, directory, report)
        cache = write_graph(directory / _MADE / GRAPH, writer, facts["vocab"])
        shutil.rmtree(directory / _MADE)
        spec = _spec(title, kind, facts, cache, texts.info.bos_id, texts.info.eos_ids)
        origin = origin_of(source, report)
        return finish_bundle(writer, texts, spec, origin, versions(*_LIBRARIES), "optimum")


def _checked_config(source: Path, quant: str | None) -> dict[str, Any]:
    """Return config.json after checking that the model and the arguments allow an export."""
    config = read_object(source / CONFIG, required=True)
    kind = str(config["model_type"])
    try:
        metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        raise UnsupportedError(
            f"model type {kind[:40]!r} is not one that EdgeDec builds",
            hint=f"it builds {', '.join(FAMILIES)}; optimum exports others: {pip_install('optimum')}",
        ) from None
    if quant is not None:
        raise UsageError(
            f"a {kind[:40]} model cannot be quantised to {quant}",
            hint="it is exported with optimum, in float32",
            remedy=Remedy("quant"),
        )
    check_unquantised(config)
    return config


def _convert(source: Path, kind: str, directory: Path, report: Progress) -> dict[str, Any]:
    """Run the worker, which writes into ``directory``/optimum, and return its facts.

    Raises UnsupportedError.
    """
    made = directory / _MADE
    made.mkdir()
    command = [*WORKER, str(source.resolve()), str(made.resolve())]
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "env": {**os.environ, **_OFFLINE}}
    with (
        (made / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, **options) as process,
    ):
        try:
            while process.poll() is None:
                report("optimum", _written(made), 0)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_S)
        except BaseException:
            process.kill()
            raise
    facts = read_object(made / FACTS)
    if "vocab" not in facts:
        why = facts.get("error", f"its process ended with status {process.returncode}")
        raise UnsupportedError(f"optimum cannot export this {kind[:40]} model: {str(why)[:500]}")
    return facts


def _written(folder: Path) -> int:
    """Return the bytes of the folder's files; 0 if one of them vanishes meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        return sum(file.stat().st_size for file in folder.iterdir())
    return 0


def write_graph(made: Path, writer: BundleWriter, vocab: int) -> CacheShape:
    """Write model.onnx and weights.bin of the decoder that optimum made. Raises UnsupportedError."""
    import onnx

    model = onnx.load(made)
    cache = cache_shape(model.graph)
    add_head(model.graph, vocab, min(HEAD_K, vocab))
    path, weights = writer.directory / MODEL, writer.directory / WEIGHTS
    weights.touch()  # with the user's own permissions, and even when no tensor is large enough for it
    onnx.save_model(model, path, save_as_external_data=True, location=WEIGHTS, size_threshold=_INLINE_BYTES)
    for file in (path, weights):
        writer.written(file.name)
    return cache


def _spec(
    name: str, kind: str, facts: Mapping[str, Any], cache: CacheShape, bos: int | None, eos: tuple[int, ...]
) -> ModelSpec:
    return ModelSpec(
        name=name,
        architecture=kind,
        vocab_size=facts["vocab"],
        n_layers=cache.layers,
        n_heads=facts["heads"],
        n_kv_heads=cache.kv_heads,
        head_dim=cache.head_dim,
        hidden_size=facts["hidden"],
        context_length=facts["context"],
        bos_id=bos,
        eos_ids=eos,
        head_k=min(HEAD_K, facts["vocab"]),
    )
