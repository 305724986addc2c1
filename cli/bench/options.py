"""Options that the studies share, and their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from edgedec.bench.harness.memory_levels import CURVE, FULL, Level
from edgedec.cli import options as opt
from edgedec.cli.services import services
from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.models.layout import Layout

if TYPE_CHECKING:
    from edgedec.memory import KvType

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOptions:
    """Options of every study."""

    model: str
    threads: int | None
    as_json: bool

    @property
    def chosen_threads(self) -> int:
        """Threads of every side: as many as EdgeDec would choose. Raises UsageError for too many."""
        from edgedec.telemetry.cores import check_usable, physical_cores

        check_usable(self.threads)
        return self.threads or physical_cores()


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerOptions(StudyOptions):
    """Options of studies that other runtimes can take part in."""

    peers: tuple[str, ...] = ()

    @property
    def gguf_file(self) -> Path | None:
        """The GGUF file that other runtimes read: the model, or the one kept when it was pulled."""
        if self.model.endswith(".gguf"):
            return Path(self.model)
        home = services(click.get_current_context()).store().home
        return next(iter(sorted(Layout(home).kept(self.model).glob("*.gguf"))), None)

    @property
    def pythons(self) -> dict[str, str]:
        """Interpreters by runtime, of those that have one of their own."""
        return {name: path for name, path in self._named if path}

    @property
    def _named(self) -> list[tuple[str, str]]:
        """Runtimes and their interpreters; "" for the one that runs this."""
        parts = (part.strip().partition("=") for given in self.peers for part in given.split(","))
        return [(name, path) for name, _, path in parts]

    def peer_names(self, able: tuple[str, ...], lack: str) -> list[str]:
        """Return the peers named. Raises UsageError for one that is not among those ``able``."""
        from edgedec.bench.harness.runtimes import check_peers

        names = [name for name, _ in self._named]
        check_peers(names, able, lack)
        return names


class Levels(click.ParamType[tuple[Level, ...]]):
    """A size, a share to take away, or the name of one memory level or several."""

    name = "levels"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Level, ...]:
        text = str(value).strip().lower()
        if text in ("full", "least"):
            return (FULL,) if text == "full" else (Level("least"),)
        if text == "curve":
            return CURVE
        if found := re.fullmatch(r"-(\d{1,2}(?:\.\d+)?)%", text):
            return (Level("cut", float(found[1]) / 100) if float(found[1]) else FULL,)
        return (Level("size", opt.Size().convert(value, param, ctx), str(value).strip()),)


def stacked(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Make one decorator of several options."""

    def decorate(command: F) -> F:
        for one in reversed(options):
            command = one(command)
        return command

    return decorate


def _flat(
    ctx: click.Context, param: click.Parameter, given: Sequence[tuple[Level, ...]]
) -> tuple[Level, ...]:
    return tuple(level for some in given for level in some)


levels_option = click.option(
    "--memory", "levels", type=Levels(), multiple=True, callback=_flat, metavar="SIZE",
    help="Memory budget; may be given several times. A size as for chat; -65%: generation memory less 65 % "
    "of it; full: no limit; least: the smallest that keeps the context; curve: full, -30%, -50%, -65%, -75%, "
    "-85%, least.",
)  # fmt: skip

save_option = click.option(
    "--save", type=click.Path(path_type=Path), metavar="FILE",
    help="Append every reply as it comes; the same command continues from there.",
)  # fmt: skip


def input_option(text: str, *, multiple: bool = False) -> Callable[[F], F]:
    """Make the option for a file of prompts, texts or questions."""
    name = "files" if multiple else "file"
    return click.option(
        "--input", name, type=click.Path(path_type=Path), multiple=multiple, metavar="FILE", help=text
    )


def count_option(name: str, text: str, default: int | None = None, least: int = 1) -> Callable[[F], F]:
    """Make the option for a count: ``--limit``, ``--repeat``, ``--max-tokens`` and others."""
    shown = default is not None
    return click.option(
        name, type=click.IntRange(min=least), default=default, show_default=shown, metavar="N", help=text
    )


def peer_option(peers: Sequence[str]) -> Callable[[F], F]:
    """Make the option for these other runtimes."""
    return click.option(
        "--peer", "peers", multiple=True, metavar="NAME",
        help=f"Other runtimes, by comma or one by one: {', '.join(peers)}. NAME=PYTHON: by this one. They "
        "read the model's GGUF file: -m, if that is one, or the file that `edgedec pull --keep-source` kept.",
    )  # fmt: skip


study_options = (opt.threads_option, opt.json_option)
"""Last options of every study."""


last_options = stacked(*study_options)


def check_task(ctx: click.Context, task: str, used: Mapping[str, Sequence[str]]) -> None:
    """Raise UsageError for an option of another task. ``used`` has the names of options that tasks use."""
    others = {name for names in used.values() for name in names} - set(used[task])
    for param in ctx.command.params:
        given = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
        if given and param.name in others:
            raise UsageError(f"{param.opts[0]} does not belong to {task}")


def kv_types(text: str, default: tuple[KvType, ...]) -> Callable[[F], F]:
    """Make the option for several types of KV cache."""
    return click.option(
        "--kv", "kinds", type=click.Choice(["fp16", "int8"]), multiple=True, default=default,
        metavar="KIND", help=text,
    )  # fmt: skip
