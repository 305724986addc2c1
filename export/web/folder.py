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
    gpu = _runs_on_gpus(Manifest.load(order.bundle))
    with atomic_path(out, directory=True) as directory, storage_errors(str(out)):
        write_page(directory)
        model = directory / MODEL
        model.mkdir()
        placed = place_parts(order, model, report)
        write_cpu(directory, model, placed)
        manifest, longest = Manifest.load(model), MAX_PASS
        if gpu:
            longest = write_gpu(directory, model).max_pass
        drafters = tuple(one.kind for one in placed.drafters if one.kind != TABLES)
        facts = WebModel(manifest, page_context(manifest.spec), longest, drafters)
        return save_contents(directory, facts, _parts(directory, placed, gpu))


def _runs_on_gpus(manifest: Manifest) -> bool:
    """Say whether GPUs run the model. Raises UnsupportedError for one that fits neither them nor the CPU."""
    if not manifest.spec.experts:
        return True
    weights = manifest.files[WEIGHTS].bytes
    if weights > MOST_WEIGHTS:
        message = f"{manifest.name} has {size(weights)} of weights, and a browser's CPU addresses 4GB"
        raise UnsupportedError(message, hint="run it on the CPU with Python")
    return False


def _parts(directory: Path, placed: DeviceFolder, gpu: bool) -> PageParts:
    """Say which files each part of the page reads; ``gpu``: whether GPUs run the model."""
    model = directory / MODEL
    tables = sorted((model / ARTIFACTS / TABLES).glob("*.table"))
    drafts = [model / ARTIFACTS / TABLES / DRAFTER, *tables] if tables else []
    cpu = [model / CPU_PROGRAM, *sorted((model / PROGRAMS).glob("*"))]
    for one in placed.drafters:
        folder = model / one.path
        if one.kind == SMALL:
            cpu += [model / DEVICE, *(folder / name for name in (*_READ[:2], CPU_PROGRAM, WEIGHTS))]
            cpu += sorted((folder / ARTIFACTS / TRIM).glob("*"))
            cpu += sorted((model / one.maps).glob("*")) if one.maps else []
        elif one.kind != TABLES:
            cpu += [path for path in sorted(folder.glob("*")) if path.suffix != ".onnx"]

    def names(paths: list[Path]) -> tuple[str, ...]:
        return tuple(path.relative_to(directory).as_posix() for path in paths if path.is_file())

    kernels = (SHADERS, PROBE, PROGRAM) if gpu else ()
    engine = names([*(model / name for name in _READ), *drafts])
    return PageParts(WASM, FAST, f"{MODEL}/{WEIGHTS}", engine, names(cpu), *kernels)
