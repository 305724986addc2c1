"""Files that studies need, the sides they start, and progress."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli.progress import passing_bars, reporter
from edgedec.cli.services import services
from edgedec.core.errors import UsageError
from edgedec.core.progress import Progress, silent

if TYPE_CHECKING:
    from edgedec.bench.harness.runtimes import PeerRun
    from edgedec.bench.harness.worker import Side
    from edgedec.bundle.manifest import Manifest
    from edgedec.cli.bench.options import PeerOptions, StudyOptions
    from edgedec.text.template import ChatTemplate
    from edgedec.text.tokenizer import Tokenizer


def find_bundle(ctx: click.Context, model: str) -> Path:
    """Return the bundle of a model as ``-m`` names it; pull or export it first where it is missing."""
    with reporter() as report:
        return services(ctx).store().ensure(model, progress=report)


def find_model(ctx: click.Context, model: str) -> tuple[Path, Manifest]:
    """Return the bundle of a model, as ``find_bundle`` does, and its manifest."""
    from edgedec.bundle.manifest import Manifest

    bundle = find_bundle(ctx, model)
    return bundle, Manifest.load(bundle)


def home(ctx: click.Context) -> str:
    """Return the folder that keeps models and pass costs."""
    return str(services(ctx).store().home)


def find_draft_models(ctx: click.Context, drafts: Sequence[str]) -> dict[str, str]:
    """Return the bundles of all draft models in ``drafts``. Raises UsageError for unknown drafters."""
    from edgedec.core.errors import NotFoundError
    from edgedec.drafters.registry import models_in, no_drafter, parsed

    found: dict[str, str] = {}
    for name in (name for names in drafts for name in models_in(parsed(names))):
        try:
            found[name] = str(find_bundle(ctx, name))
        except NotFoundError as error:
            raise no_drafter(name) from error
    return found


def peer_run(
    ctx: click.Context, options: PeerOptions, manifest: Manifest, context: int, *, all_rows: bool = False
) -> PeerRun:
    """Return how other runtimes run the model's GGUF file, which is verified."""
    from edgedec.bench.harness.runtimes import PeerRun

    gguf = _find_gguf(options, manifest)
    cache = services(ctx).store().home / "peers" / manifest.source_hashes[0][:16]
    return PeerRun(gguf, options.chosen_threads, context, cache, options.pythons, all_rows)


def peer_sides(
    ctx: click.Context,
    options: PeerOptions,
    manifest: Manifest,
    names: Sequence[str],
    *,
    context: int,
    all_rows: bool = False,
) -> list[Side]:
    """Return the sides of these peers, if there are any."""
    from edgedec.bench.harness import runtimes

    if not names:
        return []
    run = peer_run(ctx, options, manifest, context, all_rows=all_rows)
    return [runtimes.peer_side(name, run) for name in names]


def _find_gguf(options: PeerOptions, manifest: Manifest) -> Path:
    from edgedec.bench.harness.runtimes import check_source
    from edgedec.export.gguf_parts import gguf_files

    path = options.gguf_file
    if path is None:
        hint = "name it as -m, or pull the model with --keep-source"
        raise UsageError("other runtimes read the GGUF file", hint=hint)
    size = sum(one.stat().st_size for one in gguf_files(path) if one.is_file())
    done = 0
    with reporter() as report:

        def step(count: int) -> None:
            nonlocal done
            done += count
            report("verify", done, size)

        check_source(manifest, path, step)
    return path


def bandwidth(ctx: click.Context, threads: int) -> float:
    """Measure and keep the memory bandwidth of ``threads``; return the best that was measured, in GB/s."""
    from edgedec.metrics.measures import BANDWIDTH_FILE
    from edgedec.telemetry import bandwidth

    given = services(ctx)
    file = given.store().home / "costs" / BANDWIDTH_FILE
    bandwidth.keep(found := bandwidth.measure(given.bandwidth, [threads]), file)
    best = bandwidth.with_threads(bandwidth.kept(file), threads)
    return best.gb_per_s if best else found[0].gb_per_s


def check_context(manifest: Manifest, context: int) -> None:
    """Raise UsageError when a model was not made for ``context`` tokens."""
    if context > manifest.spec.context_length:
        raise UsageError(
            f"a context of {context} tokens is more than {manifest.name} was made for",
            hint=f"at most {manifest.spec.context_length}",
        )


def load_text_parts(bundle: Path, manifest: Manifest) -> tuple[Tokenizer, ChatTemplate | None]:
    """Load a bundle's tokenizer, and its chat template if it has one."""
    from edgedec.loaded_model import load_template
    from edgedec.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(bundle, manifest.tokenizer)
    return tokenizer, load_template(bundle, tokenizer, manifest)


def prompt_ids(
    bundle: Path, manifest: Manifest, texts: Sequence[str], length: int | None
) -> list[tuple[int, ...]]:
    """Return prompts of one user turn each, repeated or cut to ``length`` tokens unless that is None.

    A model without chat template gets the texts as they are.
    """
    from edgedec.session.prompt import Message, Prompts

    builder = Prompts(*load_text_parts(bundle, manifest))
    ids = [tuple(builder.build([Message("user", text)]).ids) for text in texts]
    if length is None:
        return ids
    return [(one * (length // len(one) + 1))[:length] for one in ids]


def conditions(options: StudyOptions, manifest: Manifest, file: Path | None) -> dict[str, Any]:
    """Return the conditions of every saved reply: program, model, machine, questions."""
    from edgedec.backends.open import runtime_of
    from edgedec.bundle.manifest import WEIGHTS
    from edgedec.core.version import __version__
    from edgedec.disk.files import sha256_of
    from edgedec.telemetry.machine import describe

    return {
        "version": __version__,
        "model": manifest.name,
        "weights": manifest.files[WEIGHTS].sha256[:16],
        "cpu": describe().cpu,
        "isa": runtime_of(manifest),
        "threads": options.chosen_threads,
        "input": sha256_of(file)[:16] if file else "built in",
    }


@contextmanager
def steps() -> Iterator[Progress]:
    """Show a bar that counts the steps of a stage on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield silent
        return
    from rich import progress

    label, times = progress.TextColumn("{task.description}"), progress.TimeRemainingColumn()
    counts = progress.MofNCompleteColumn(), progress.TimeElapsedColumn()
    with passing_bars(label, progress.BarColumn(), *counts, times) as bars:

        def show(stage: str, done: int, total: int) -> None:
            for task in bars.tasks:
                if task.description != stage:
                    bars.remove_task(task.id)
            shown = bars.task_ids or [bars.add_task(stage, total=total)]
            bars.update(shown[0], completed=done, total=total)

        yield show
