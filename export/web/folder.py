"""Writes a folder for browsers: the page, the bundle, and what its parts compute with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgedec.bundle.drafter_manifest import DRAFTER, TABLES
from edgedec.bundle.manifest import CHAT_TEMPLATE, MANIFEST, TOKENIZER_TABLE, WEIGHTS, Manifest
from edgedec.bundle.verification import verify
from edgedec.bundle.web_folder import CONTENTS, PageParts, WebFolder, WebModel, save_contents
from edgedec.core.errors import UnsupportedError
from edgedec.core.model_spec import refuse_experts
from edgedec.core.progress import Progress, silent
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import atomic_path, storage_errors
from edgedec.disk.home import ARTIFACTS
from edgedec.drafters.artifacts import DrafterArtifact
from edgedec.export.device.parts import check_suits, place_bundle, place_drafter
from edgedec.export.web.computing import (
    CPU,
    FAST,
    MAX_PASS,
    PROBE,
    PROGRAM,
    SHADERS,
    WASM,
    page_context,
    write_cpu,
    write_gpu,
)
from edgedec.export.web.index import write_page
from edgedec.export.writer import check_apart, check_space, check_target
from edgedec.text.template_program import FILE_NAME as TEMPLATE_PROGRAM

MODEL = "model"
_READ = (MANIFEST, TOKENIZER_TABLE, CHAT_TEMPLATE, TEMPLATE_PROGRAM)
"""Files of a bundle that the engine in the browser reads."""


@dataclass(frozen=True, slots=True)
class WebOrder:
    """The contents of a folder: a bundle, and drafters for it. ``home`` keeps records of verifications."""

    bundle: Path
    drafters: Sequence[DrafterArtifact]
    home: Path


def write_web_folder(order: WebOrder, out: Path, report: Progress = silent) -> WebFolder:
    """Write the folder ``out`` completely or not at all, and return its table of contents.

    Raises UsageError for an ``out`` that is none, UnsupportedError for a model or a drafter that the page
    cannot run, BadFileError for a damaged file, StorageError.
    """
    check_target(out, CONTENTS, "folder of a page")
    check_apart(out, [order.bundle])
    manifest = Manifest.load(order.bundle)
    check_suits(manifest)
    refuse_experts(manifest.spec, "a browser", "run it on the CPU with Python")
    if strange := [one.kind for one in order.drafters if one.kind != TABLES]:
        raise UnsupportedError(f"the page does not draft by {strange[0]}", hint=f"it drafts by {TABLES}")
    verify(order.bundle, manifest, order.home, progress=report)
    check_space(out, manifest.total_bytes)
    with atomic_path(out, directory=True) as directory, storage_errors(str(out)):
        write_page(directory)
        model = directory / MODEL
        placed, _ = place_bundle(order.bundle, model, report)
        for found in order.drafters:
            place_drafter(found, model / ARTIFACTS / found.kind, report)
        write_cpu(directory, model)
        context, longest = page_context(manifest.spec), MAX_PASS
        if gpu := not manifest.spec.caches:
            longest = write_gpu(directory, model).max_pass
        return save_contents(directory, WebModel(placed, context, longest), _parts(directory, gpu))


def _parts(directory: Path, gpu: bool) -> PageParts:
    """Say which files each part of the page reads; ``gpu``: whether GPUs run the model."""
    model = directory / MODEL
    tables = sorted((model / ARTIFACTS / TABLES).glob("*.table"))
    drafts = [model / ARTIFACTS / TABLES / DRAFTER, *tables] if tables else []
    read = [*(model / name for name in _READ), *drafts]
    engine = tuple(path.relative_to(directory).as_posix() for path in read if path.is_file())
    kernels = (SHADERS, PROBE, PROGRAM) if gpu else ()
    return PageParts(WASM, FAST, f"{MODEL}/{WEIGHTS}", engine, (CPU,), *kernels)
