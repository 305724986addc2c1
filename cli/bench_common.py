"""What the measurements share beside options: progress, and finding the files they need."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli.progress import reporter
from edgedec.cli.seams import seams
from edgedec.core.errors import UsageError

if TYPE_CHECKING:
    from edgedec.bench.worker import Side
    from edgedec.cli.bench_options import Shared
    from edgedec.core.manifest import Manifest

Steps = Callable[[str, int, int], None]


def find_bundle(ctx: click.Context, model: str) -> Path:
    """The bundle of a model that is named as for ``-m``; what is missing is pulled first."""
    with reporter() as report:
        return seams(ctx).store().ensure(model, progress=report)


def find_gguf(model: str, gguf: Path | None, manifest: Manifest) -> Path:
    """The file that other runtimes read, made sure to be the one that the bundle was made of."""
    from edgedec.bench.sides import check_source

    path = gguf or (Path(model) if model.endswith(".gguf") else None)
    if path is None:
        raise UsageError("other runtimes read the GGUF file", hint="name it with --gguf FILE")
    size = path.stat().st_size if path.is_file() else 0
    done = 0
    with reporter() as report:

        def step(count: int) -> None:
            nonlocal done
            done += count
            report("verify", done, size)

        check_source(manifest, path, step)
    return path


def check_context(manifest: Manifest, context: int) -> None:
    """Raises UsageError when a model was not made for ``context`` tokens."""
    if context > manifest.spec.context_length:
        raise UsageError(
            f"a context of {context} tokens is more than {manifest.name} was made for",
            hint=f"at most {manifest.spec.context_length}",
        )


def all_peers(
    ctx: click.Context,
    shared: Shared,
    manifest: Manifest,
    names: Sequence[str],
    *,
    context: int,
    all_rows: bool = False,
) -> list[Side]:
    """The peers of these ``names`` on the GGUF file, which is checked, if there are any."""
    from edgedec.bench import sides

    if not names:
        return []
    gguf = find_gguf(shared.model, shared.gguf, manifest)
    cache = seams(ctx).store().home / "peers" / str(manifest.source["sha256"])[:16]
    return [
        sides.peer(name, gguf, python=shared.python(name), threads=shared.chosen_threads, context=context,
                   all_rows=all_rows, cache=cache)
        for name in names
    ]  # fmt: skip


def prompt_ids(
    bundle: Path, manifest: Manifest, prompts: Path | None, limit: int, length: int | None
) -> list[tuple[int, ...]]:
    """Prompts as single user turns through the chat template, or as they are for a model without one."""
    from edgedec.bench.texts import PROMPTS, read_prompts
    from edgedec.runtime.loaded_model import load_template
    from edgedec.session.prompt import Message, Prompts
    from edgedec.text.tokenizer import Tokenizer

    texts = list(PROMPTS) if prompts is None else read_prompts(prompts)
    tokenizer = Tokenizer.load(bundle, manifest.tokenizer)
    builder = Prompts(tokenizer, load_template(bundle, tokenizer, manifest))
    ids = [tuple(builder.build([Message("user", text)]).ids) for text in texts[:limit]]
    if length is None:
        return ids
    return [(one * (length // len(one) + 1))[:length] for one in ids]


def conditions(shared: Shared, manifest: Manifest, prompts: Path | None) -> dict[str, Any]:
    """What every measurement of replies depends on: program, model, machine, prompts."""
    from edgedec import __version__
    from edgedec.backends.open import runtime_of
    from edgedec.core.files import sha256_of
    from edgedec.core.manifest import WEIGHTS
    from edgedec.telemetry.machine import describe

    return {
        "version": __version__,
        "model": manifest.name,
        "weights": manifest.files[WEIGHTS].sha256[:16],
        "cpu": describe().cpu,
        "isa": shared.isa or runtime_of(manifest),
        "threads": shared.chosen_threads,
        "prompts": sha256_of(prompts)[:16] if prompts else "built in",
    }


@contextmanager
def steps() -> Iterator[Steps]:
    """Bars that count steps: on a terminal, on standard error, once a second has passed."""
    if not sys.stderr.isatty():
        yield lambda stage, done, total: None
        return
    bars = StepBars()
    try:
        yield bars
    finally:
        bars.close()


class StepBars:
    """One bar per stage; the one before is done when the next begins."""

    def __init__(self) -> None:
        from rich import progress
        from rich.console import Console

        self._bars = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            refresh_per_second=2,  # drawing takes time from what is measured
        )
        self._bars.start()
        self._task: Any = None
        self._stage = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            if self._task is not None:
                self._bars.remove_task(self._task)
            self._task, self._stage = self._bars.add_task(stage, total=total), stage
        self._bars.update(self._task, completed=done, total=total)

    def close(self) -> None:
        self._bars.stop()


def check_when_full(policies: str | Sequence[str] | None, context: int | None) -> None:
    """Raises UsageError for a policy without a size of the cache, or the other way round."""
    if bool(policies) != (context is not None):
        raise UsageError("--when-full and --context belong together", hint="--when-full slide --context 256")
