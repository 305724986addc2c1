"""The parts of the package that commands call, in one place; tests hand in their own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from edgedec.bundle.device_place import ON_CPU, DevicePlace
from edgedec.bundle.preset import OFF
from edgedec.cli import progress
from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.assemble.opener import Load
    from edgedec.bundle.exits import LayerOutputs
    from edgedec.bundle.manifest import Manifest
    from edgedec.core.progress import Progress
    from edgedec.embed.encoder import Encoder
    from edgedec.loaded_model import LoadedModel
    from edgedec.metrics.stats import Clock
    from edgedec.models import Store


def _store() -> Store:
    from edgedec.models import Store

    return Store(notice=progress.notice, in_subprocess=True)


def _load(
    bundle: Path,
    /,
    *,
    threads: int | None,
    drafting: LayerOutputs,
    place: DevicePlace = ON_CPU,
) -> LoadedModel:
    from edgedec.loaded_model import load_model

    ctx = click.get_current_context(silent=True)
    home = services(ctx).store().home if ctx else None
    with progress.reporter() as report:
        return load_model(bundle, threads=threads, drafting=drafting, place=place, home=home, progress=report)


def _export(
    source: Path,
    out: Path,
    *,
    name: str | None,
    quant: str | int | None,
    calibration: str | None,
    backend: str | None,
    target: str | None,
    lora: Sequence[str] = (),
    progress: Progress,
) -> Manifest:
    from edgedec.export import (
        ModelCard,
        NpuPlan,
        WithAdapters,
        export_for_npu,
        export_gguf,
        export_huggingface,
    )
    from edgedec.models.known_file import preset_by_name, same_file

    card = None
    if not source.is_dir():
        recipe = same_file(source)
        preset = recipe.preset if recipe and recipe.preset != OFF else preset_by_name(source)
        name, card = name or (recipe.name if recipe else None), ModelCard(preset=preset)
    if target is not None:
        plan = NpuPlan(calibration, compiled=target == "htp")
        return export_for_npu(source, out, name=name, card=card, progress=progress, plan=plan)
    if source.is_dir():
        directory = WithAdapters(source, lora) if lora else source
        return export_huggingface(
            directory, out, name=name, quant=quant, calibration=calibration, progress=progress
        )
    return export_gguf(source, out, name=name, card=card, backend=backend, progress=progress)


def _encoder(model: str, store: Store, *, threads: int | None, memory: int | None) -> Encoder:
    from edgedec import open_encoder

    with progress.reporter() as report:
        return open_encoder(
            model, threads=threads, memory=memory, store=store, notice=progress.notice, progress=report
        )


def _kernels() -> ModuleType:
    from edgedec.kernels import library

    return library


def _bandwidth(size: int, threads: int) -> float:
    from edgedec.kernels import library

    return float(library.load().edgedec_read_bandwidth(size, threads))


def _gpus(ask: bool) -> dict[str, Any]:
    from edgedec.backends.gpu.survey import survey

    return survey(ask=ask)


@dataclass(frozen=True)
class Services:
    """Each field is imported only when it is called."""

    store: Callable[[], Store] = _store
    load: Load = _load
    export: Callable[..., Manifest] = _export
    encoder: Callable[..., Encoder] = _encoder
    kernels: Callable[[], ModuleType] = _kernels
    """The kernel library, of which ``edgedec doctor`` has questions."""
    bandwidth: Callable[[int, int], float] = _bandwidth
    gpus: Callable[[bool], dict[str, Any]] = _gpus
    clock: Clock = time.perf_counter
    interactive: Callable[[], bool] = lambda: sys.stdin.isatty() and sys.stdout.isatty()


def services(ctx: click.Context) -> Services:
    """Return those of this invocation."""
    return ctx.ensure_object(Services)
