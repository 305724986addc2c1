"""The options that the measurements share, and what the user gave for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgedec.bench.levels import CURVE, FULL, Level
from edgedec.bench.sides import PEERS, check_drafting_peer
from edgedec.cli import options as opt
from edgedec.core.errors import UsageError

if TYPE_CHECKING:
    from edgedec.memory import KvType

F = TypeVar("F", bound=Callable[..., Any])


class Levels(click.ParamType[tuple[Level, ...]]):
    """A size, a share to take away, or the name of a level or of several."""

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


def _flat(ctx: click.Context, param: click.Parameter, given: Sequence[tuple[Level, ...]]) -> list[Level]:
    return [level for some in given for level in some]


levels_option = click.option(
    "--memory", "levels", type=Levels(), multiple=True, callback=_flat, metavar="SIZE",
    help="Measure sessions within a budget; may be given several times. A size as for chat; -65%: so much "
    "less generation memory than unconstrained; full; least: the smallest that keeps the context; "
    "curve: full, -30%, -50%, -65%, -75%, -85%, least.",
)  # fmt: skip


def shared_options(peers: Sequence[str]) -> Callable[[F], F]:
    """The options of ``Shared``, for a measurement that these ``peers`` can take part in."""
    options = (
        opt.model_option,
        click.option(
            "--peer", "peers", multiple=True, metavar="NAME",
            callback=lambda ctx, param, given: ",".join(given) or None,
            help=f"Runtimes to measure beside it, by comma or one by one: {', '.join(peers)}.",
        ),
        click.option(
            "--gguf", type=click.Path(path_type=Path), metavar="FILE",
            help="The GGUF file the model was made of (default: -m, if that is one).",
        ),
        click.option(
            "--peer-python", "peer_pythons", multiple=True, metavar="[NAME=]PATH",
            help="Python that has the other runtimes, or the one of this name (default: this one).",
        ),
        click.option(
            "--threads", type=click.IntRange(min=1), metavar="N",
            help="Threads to compute with, on every side (default: one per core).",
        ),
        click.option(
            "--isa", metavar="ROW", help="Force a kernel row, like EDGEDEC_ISA (see `edgedec doctor`)."
        ),
        opt.kv_option,
        opt.json_option,
    )  # fmt: skip

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@dataclass(frozen=True, slots=True)
class Shared:
    """What was given for ``shared_options``."""

    model: str
    peers: str | None
    gguf: Path | None
    peer_pythons: Sequence[str]
    threads: int | None
    isa: str | None
    as_json: bool
    kv: KvType = "fp16"

    def names(self, able: Sequence[str], lack: str) -> list[str]:
        """The comma-separated names of --peer. Raises UsageError for one that is unknown or given twice, or
        not among those ``able`` to take part; ``lack`` says what it cannot do.
        """
        names = [name.strip() for name in self.peers.split(",")] if self.peers else []
        for index, name in enumerate(names):
            if name not in PEERS:
                raise UsageError(f"--peer {name}: no such peer", hint=f"known: {', '.join(PEERS)}")
            if name in names[:index]:
                raise UsageError(f"--peer names {name} twice")
            if name not in able:
                raise UsageError(f"{name} {lack}", hint=f"these do: {', '.join(able)}")
        return names

    def drafting_names(self) -> list[str]:
        """The names of --peer in a run with drafts or categories. Raises UsageError."""
        names = [name.strip() for name in self.peers.split(",")] if self.peers else []
        for index, name in enumerate(names):
            check_drafting_peer(name)
            if name in names[:index]:
                raise UsageError(f"--peer names {name} twice")
        return names

    def python(self, name: str) -> str | None:
        """The interpreter given for this runtime, else the one given for all; None: ours."""
        split = {given: given.partition("=") for given in self.peer_pythons}
        named = {prefix: path for prefix, _, path in split.values() if prefix in PEERS}
        general = [given for given, (prefix, _, _) in split.items() if prefix not in PEERS]
        return named.get(name) or (general[-1] if general else None)

    @property
    def chosen_threads(self) -> int:
        """As many as the backend would choose, so that every side gets the same."""
        from edgedec.telemetry.machine import physical_cores

        return self.threads or physical_cores()
