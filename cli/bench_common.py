"""What the measurements share: options, progress, and finding the files they need."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli.progress import reporter
from edgedec.cli.seams import seams
from edgedec.core.errors import UsageError

if TYPE_CHECKING:
    from edgedec.bench.worker import Side
    from edgedec.core.manifest import Manifest

Steps = Callable[[str, int, int], None]

threads_option = click.option(
    "--threads", type=click.IntRange(min=1), metavar="N",
    help="Threads to compute with, on every side (default: one per core).",
)  # fmt: skip
isa_option = click.option(
    "--isa", metavar="ROW", help="Force a kernel row, like EDGEDEC_ISA (see `edgedec doctor`)."
)
plot_option = click.option(
    "--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw the result (png, svg, pdf)."
)
gguf_option = click.option(
    "--gguf", type=click.Path(path_type=Path), metavar="FILE",
    help="The GGUF file the model was made of (default: -m, if that is one).",
)  # fmt: skip
peer_python_option = click.option(
    "--peer-python", "peer_pythons", multiple=True, metavar="[NAME=]PATH",
    help="Python interpreter that has the other runtimes, or the one of this name (default: this one).",
)  # fmt: skip


def find_bundle(ctx: click.Context, model: str) -> Path:
    """The bundle of a model's name, directory or GGUF file; what is missing is pulled first."""
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


@dataclass(frozen=True, slots=True)
class Setting:
    """What all sides get alike, and where the others' interpreter is."""

    threads: int
    context: int
    isa: str | None
    peer_pythons: Sequence[str]

    def python(self, name: str) -> str | None:
        """The interpreter given for this runtime, else the one given for all; None: ours."""
        from edgedec.bench.sides import PEERS

        split = {given: given.partition("=") for given in self.peer_pythons}
        named = {prefix: path for prefix, _, path in split.values() if prefix in PEERS}
        general = [given for given, (prefix, _, _) in split.items() if prefix not in PEERS]
        return named.get(name) or (general[-1] if general else None)


def check_context(manifest: Manifest, context: int) -> None:
    """Raises UsageError when a model was not made for ``context`` tokens."""
    if context > manifest.spec.context_length:
        raise UsageError(
            f"a context of {context} tokens is more than {manifest.name} was made for",
            hint=f"at most {manifest.spec.context_length}",
        )


def peer_names(peers: str | None, *, logits: bool = False) -> list[str]:
    """The comma-separated names of --peer. Raises UsageError for one that is unknown or given twice, or that
    does not show its ``logits`` where they are needed.
    """
    from edgedec.bench.sides import PEERS, WITH_LOGITS

    names = [name.strip() for name in peers.split(",")] if peers else []
    for index, name in enumerate(names):
        if name not in PEERS:
            raise UsageError(f"--peer {name}: no such peer", hint=f"known: {', '.join(PEERS)}")
        if name in names[:index]:
            raise UsageError(f"--peer names {name} twice")
        if logits and name not in WITH_LOGITS:
            raise UsageError(f"{name} does not show its logits", hint=f"these do: {', '.join(WITH_LOGITS)}")
    return names


def all_sides(
    bundle: Path, gguf: Path | None, names: Sequence[str], setting: Setting, *, all_rows: bool = False
) -> list[Side]:
    """EdgeDec, and the peers of these ``names`` on the GGUF file."""
    from edgedec.bench import sides

    out = [sides.ours(bundle, threads=setting.threads, context=setting.context, isa=setting.isa)]
    for name in names:
        assert gguf is not None
        peer = sides.peer(name, gguf, python=setting.python(name), threads=setting.threads,
                          context=setting.context, all_rows=all_rows)  # fmt: skip
        out.append(peer)
    return out


def chosen_threads(threads: int | None) -> int:
    """As many as the backend would choose, so that every side gets the same."""
    from edgedec.backends.onnx_session import physical_cores

    return threads or physical_cores()


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
