"""What the commands get from the rest of the package, in one place; tests hand in their own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from edgedec.cli import progress

if TYPE_CHECKING:
    from edgedec.core.manifest import Manifest
    from edgedec.decode.speculation import Speculation
    from edgedec.memory import KvType
    from edgedec.models import Store
    from edgedec.runtime.drafting import Drafting
    from edgedec.runtime.loaded_model import LoadedModel


class Loader(Protocol):
    def __call__(
        self, bundle: Path, *, threads: int | None, context: int | None, kv: KvType
    ) -> LoadedModel: ...


class Exporter(Protocol):
    def __call__(
        self,
        source: Path,
        out: Path,
        *,
        name: str | None,
        quant: str | None,
        calibration: str | None,
        backend: str | None,
        progress: progress.Reporter,
    ) -> Manifest: ...


class Kernels(Protocol):
    """What ``edgedec doctor`` asks the kernel library."""

    def library_path(self) -> Path: ...
    def rows(self) -> list[str]: ...
    def can_run(self, row: str) -> bool: ...
    def isa(self) -> str: ...


def _store() -> Store:
    from edgedec.models import Store

    return Store(notice=progress.notice, apart=True)


def _load(bundle: Path, *, threads: int | None, context: int | None, kv: KvType) -> LoadedModel:
    from edgedec.cli.verification import verify_beside
    from edgedec.runtime.loaded_model import load_model

    if ctx := click.get_current_context(silent=True):
        verify_beside(ctx, bundle, seams(ctx).store().home)
    return load_model(bundle, threads=threads, context=context, kv=kv)


def _export(
    source: Path,
    out: Path,
    *,
    name: str | None,
    quant: str | None,
    calibration: str | None,
    backend: str | None,
    progress: progress.Reporter,
) -> Manifest:
    from edgedec.export import export_gguf, export_huggingface

    if source.is_dir():
        return export_huggingface(
            source, out, name=name, quant=quant, calibration=calibration, progress=progress
        )
    return export_gguf(source, out, name=name, backend=backend, progress=progress)


def _kernels() -> Kernels:
    from edgedec.kernels import library

    return library


def _bandwidth(size: int, threads: int) -> float:
    from edgedec.kernels import library

    return float(library.load().edgedec_read_bandwidth(size, threads))


@dataclass(frozen=True)
class Seams:
    """Each field is imported only when it is called."""

    store: Callable[[], Store] = _store
    load: Loader = _load
    export: Exporter = _export
    kernels: Callable[[], Kernels] = _kernels
    bandwidth: Callable[[int, int], float] = _bandwidth
    interactive: Callable[[], bool] = lambda: sys.stdin.isatty() and sys.stdout.isatty()


def seams(ctx: click.Context) -> Seams:
    """Those of this invocation."""
    return ctx.ensure_object(Seams)


def open_model(
    ctx: click.Context, name: str, *, threads: int | None, context: int | None, kv: KvType = "fp16"
) -> LoadedModel:
    """Load a model by name or path; what is missing is pulled or exported first, with progress."""
    given = seams(ctx)
    with progress.reporter() as report:
        bundle = given.store().ensure(name, progress=report)
    return given.load(bundle, threads=threads, context=context, kv=kv)


def fetch_drafts(ctx: click.Context, drafting: Drafting) -> dict[str, Path]:
    """Pull or export the models that are to draft; their bundles by name. Raises UsageError for a name that
    is nothing's.
    """
    from edgedec.core.errors import NotFoundError
    from edgedec.runtime.drafting import no_drafter

    bundles: dict[str, Path] = {}
    for name in drafting.models:
        try:
            with progress.reporter() as report:
                bundles[name] = seams(ctx).store().ensure(name, progress=report)
        except NotFoundError as error:
            raise no_drafter(name) from error
    return bundles


def open_speculation(
    ctx: click.Context, model: LoadedModel, drafting: Drafting, drafter: LoadedModel | None = None
) -> Speculation | None:
    """Drafters for a loaded model, as the user chose; what passes cost is kept in the store's home.

    ``drafter``: the model that drafts, where it is loaded already.
    """
    from edgedec.runtime.draft_history import with_history
    from edgedec.runtime.drafting import speculation_for

    home = seams(ctx).store().home
    speculation = speculation_for(
        model,
        drafting,
        home / "costs",
        clock=time.perf_counter,
        notice=progress.notice,
        open_draft=lambda name: drafter or open_draft(ctx, model, name),
    )
    if speculation is not None and drafting.history:
        ctx.call_on_close(with_history(model, speculation, home / "drafts", progress.notice))
    return speculation


def open_draft(ctx: click.Context, target: LoadedModel, name: str) -> LoadedModel:
    """Load a model that drafts, with threads, kind of cache, and as far as it can context of its target."""
    from edgedec.core.manifest import Manifest
    from edgedec.runtime.loaded_model import kv_of_draft

    given = seams(ctx)
    with progress.reporter() as report:
        bundle = given.store().ensure(name, progress=report)
    manifest = Manifest.load(bundle)
    context = min(target.forward.capacity, manifest.spec.context_length)
    return given.load(bundle, threads=target.threads, context=context, kv=kv_of_draft(target, manifest))
