"""Writes a folder for browsers: the page, the model with its drafters, and what its parts compute with."""

from __future__ import annotations

from pathlib import Path

from edgedec.bundle.device_folder import DEVICE, DeviceFolder
from edgedec.bundle.device_folder import MODEL as SMALL
from edgedec.bundle.drafter_manifest import DRAFTER, TABLES, TRIM
from edgedec.bundle.manifest import CHAT_TEMPLATE, MANIFEST, TOKENIZER_TABLE, WEIGHTS, Manifest
from edgedec.bundle.web_folder import CONTENTS, PageParts, WebFolder, WebModel, save_contents
from edgedec.core.errors import UnsupportedError
from edgedec.core.progress import Progress, silent
from edgedec.core.units import size
from edgedec.disk.files import atomic_path, storage_errors
from edgedec.disk.home import ARTIFACTS
from edgedec.export.device.folder import DeviceOrder, check_order, place_parts
from edgedec.export.web.computing import (
    APART,
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
from edgedec.export.web.cpu import CPU_PROGRAM, PROGRAMS
from edgedec.export.web.index import write_page
from edgedec.export.writer import check_target
from edgedec.text.template_program import FILE_NAME as TEMPLATE_PROGRAM

MODEL = "model"
MOST_WEIGHTS = 3_500_000_000
"""Bytes of weights that fit into what WebAssembly addresses."""
_READ = (MANIFEST, TOKENIZER_TABLE, CHAT_TEMPLATE, TEMPLATE_PROGRAM)
"""Files of a bundle that the engine in the browser reads."""


def write_web_folder(order: DeviceOrder, out: Path, report: Progress = silent) -> WebFolder:
    """Write the folder ``out`` completely or not at all, and return its table of contents.

    Raises UsageError for an ``out`` that is none, UnsupportedError for a model or a drafter that the page
    cannot run, BadFileError for a damaged file, StorageError.
    """
    check_target(out, CONTENTS, "folder of a page")
    check_order(order, out, report)
    with atomic_path(out, directory=True) as directory, storage_errors(str(out)):
        write_page(directory)
        model = directory / MODEL
        model.mkdir()
        placed = place_parts(order, model, report)
        write_cpu(directory, model, placed)
        manifest = Manifest.load(model)
        longest, refused = _for_gpus(directory, model, manifest)
        drafters = tuple(one.kind for one in placed.drafters if one.kind != TABLES)
        facts = WebModel(manifest, page_context(manifest.spec), longest, drafters, refused)
        return save_contents(directory, facts, _parts(directory, placed, gpu=not refused))


def _for_gpus(directory: Path, model: Path, manifest: Manifest) -> tuple[int, str]:
    """Write what GPUs need. Return the tokens of the longest pass, and why GPUs do not run the model or "".

    Raises UnsupportedError for a model that fits neither them nor the CPU, BadFileError.
    """
    try:
        return write_gpu(directory, model).max_pass, ""
    except UnsupportedError as error:
        if not manifest.spec.experts:
            raise
        weights = manifest.files[WEIGHTS].bytes
        if weights > MOST_WEIGHTS:
            fits = f"and a browser's CPU addresses 4GB: {manifest.name} has {size(weights)}"
            hint = "run it on the CPU with Python"
            raise UnsupportedError(f"{error.message}, {fits}", hint=hint) from error
        return MAX_PASS, error.message


def _parts(directory: Path, placed: DeviceFolder, gpu: bool) -> PageParts:
    """Say which files each part of the page reads; ``gpu``: whether GPUs run the model."""
    model = directory / MODEL
    tables = sorted((model / ARTIFACTS / TABLES).glob("*.table"))
    drafts = [model / ARTIFACTS / TABLES / DRAFTER, *tables] if tables else []
    drafts += sorted((model / ARTIFACTS / TRIM).glob("*"))
    cpu = [model / CPU_PROGRAM, *sorted((model / PROGRAMS).glob("*"))]
    for one in placed.drafters:
        folder = model / one.path
        if one.kind == SMALL:
            cpu += [model / DEVICE, *(folder / name for name in (*_READ[:2], CPU_PROGRAM, WEIGHTS))]
            cpu += sorted((folder / ARTIFACTS / TRIM).glob("*"))
            cpu += sorted((model / one.maps).glob("*")) if one.maps else []
        elif one.kind not in (TABLES, TRIM):
            cpu += [path for path in sorted(folder.glob("*")) if path.suffix != ".onnx"]

    def names(paths: list[Path]) -> tuple[str, ...]:
        return tuple(path.relative_to(directory).as_posix() for path in paths if path.is_file())

    kernels = (SHADERS, PROBE, PROGRAM, *names([directory / APART])) if gpu else ()
    engine = names([*(model / name for name in _READ), *drafts])
    return PageParts(WASM, FAST, f"{MODEL}/{WEIGHTS}", engine, names(cpu), *kernels)
