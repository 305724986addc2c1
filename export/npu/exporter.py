"""Turns a GGUF file or a Hugging Face model directory into a bundle for NPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import UnsupportedError
from edgedec.core.progress import Progress, silent
from edgedec.export.bundle import Contents
from edgedec.export.exporter import gguf_about, gguf_contents
from edgedec.export.gguf_source import open_gguf
from edgedec.export.huggingface.config import builds
from edgedec.export.huggingface.exporter import check_directories, read_model
from edgedec.export.huggingface.files import read_object
from edgedec.export.huggingface.groups import parse_quant
from edgedec.export.interrupt import terminations_raise
from edgedec.export.model_card import ModelCard
from edgedec.export.npu.bundle import write_npu_bundle
from edgedec.export.npu.plan import NpuPlan
from edgedec.export.source import WeightSource
from edgedec.export.writer import check_target

_FLOATS = "f32,head=f32"
"""Weights of a directory are rounded once, to integers of an NPU."""


def export_for_npu(
    source: Path,
    out: Path,
    *,
    name: str | None = None,
    card: ModelCard | None = None,
    progress: Progress | None = None,
    plan: NpuPlan | None = None,
) -> Manifest:
    """Turn a GGUF file or a Hugging Face directory into a bundle for NPUs.

    It has passes of fixed lengths in 8- and 16-bit integers. ``plan`` has the choices: the text on which
    ranges of values are measured (of at least 64 tokens), the tokens of the cache (1,024), and whether QNN
    compiles the graphs ahead of time. ``progress`` is also called for the stages "calibration" and "compile".
    Everything else is as for ``export_gguf``.

    Raises UnsupportedError for an architecture that EdgeDec does not build, and where QNN is wanted and not
    installed; BackendError where it refuses a graph; and as ``export_gguf``.
    """
    source, out = Path(source), Path(out)
    report = progress or silent
    check_target(out)
    if plan and plan.compiled:
        from edgedec.export.npu.compiled import check_compiler

        check_compiler()
    with terminations_raise(), _opened(source, out, name, card or ModelCard(), report) as (weights, contents):
        return write_npu_bundle(weights, contents, out, report, plan or NpuPlan())


@contextmanager
def _opened(
    source: Path, out: Path, name: str | None, card: ModelCard, report: Progress
) -> Iterator[tuple[WeightSource, Contents]]:
    if not source.is_dir():
        with open_gguf(source) as gguf:
            yield gguf, gguf_contents(gguf, gguf_about(gguf, name, card, report))
        return
    check_directories(source, out)
    if not builds(read_object(source / "config.json", required=True)):
        raise UnsupportedError("EdgeDec builds no graph for the model", hint="it has no form for an NPU")
    read = read_model(source, parse_quant(_FLOATS))
    yield read.weights, read.contents(name, report, {})
