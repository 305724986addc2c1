"""Results of bench commands, kept in a folder until the commit or the machine changes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from edgedec.bench.harness.other_load import OtherLoad
from edgedec.disk.files import atomic_path

ROOT = Path(__file__).parents[2]
_COSTS = "costs"
_QUIET = 0.05
_CODE = ("cli", "edgedec", "export", "kernels", "models")


@dataclass(frozen=True, slots=True)
class Command:
    """``edgedec bench`` with these arguments and ``--json``; ``minutes``: about how long it takes.

    ``saves``: it takes ``--save FILE``, and goes on from there.
    """

    arguments: tuple[str, ...]
    minutes: float
    saves: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """The code and the machine of a measurement."""

    commit: str
    processor: str
    row: str
    cores: int

    def words(self, date: str, others: float) -> str:
        """Return the line above a table. ``others``: the share of the cores that other programs took."""
        plural = "s" if self.cores != 1 else ""
        machine = f"{self.processor} ({self.row} kernels), {self.cores} core{plural}"
        load = f" Other programs took up to {others:.0%} of the cores." if others > _QUIET else ""
        return f"Commit `{self.commit}`, {date}, {machine}.{load}"


class CommandError(Exception):
    """A command ended with an error, or did not end in time; the message is one line."""


Run = Callable[[list[str], float], str]
"""Runs a command for at most so many seconds and returns its standard output. Raises CommandError."""


def here() -> Place:
    """Return the commit of this tree and this machine."""
    from edgedec.kernels import library
    from edgedec.telemetry.machine import describe

    commit = _git("rev-parse", "--short", "HEAD")
    if _git("status", "--porcelain", "--", *_CODE):
        commit += ", with changes"
    machine = describe()
    return Place(commit, machine.cpu, library.isa(), machine.cores)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def linked_home(home: Path, folder: Path) -> Path:
    """Return a home in ``folder`` with all of ``home`` but its pass costs, which are measured anew.

    Costs that were measured beside other work would keep drafts from being used.
    """
    own = folder / "home"
    own.mkdir(parents=True, exist_ok=True)
    for entry in home.iterdir() if home.is_dir() else ():
        if entry.name != _COSTS and not (own / entry.name).exists():
            (own / entry.name).symlink_to(entry.resolve())
    return own


def run_command(home: Path, command: list[str], seconds: float) -> str:
    """Run ``edgedec`` with this home; its progress is not shown. Raises CommandError."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "edgedec.cli.main", *command],
            capture_output=True, check=False, encoding="utf-8", timeout=seconds,
            env={**os.environ, "EDGEDEC_HOME": str(home)},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CommandError(f"not done in {seconds / 60:.0f} minutes") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise CommandError(lines[-1][:200])
    return done.stdout


@dataclass(slots=True)
class Runs:
    """Measured commands in ``folder``, and the time that is left for more."""

    folder: Path
    place: Place
    minutes: float
    run: Run
    clock: Callable[[], float] = time.monotonic
    today: Callable[[], str] = lambda: datetime.now(UTC).strftime("%Y-%m-%d")
    others: Callable[[], OtherLoad] = OtherLoad
    _began: float = field(init=False)
    _paces: list[float] = field(init=False, default_factory=list)
    """Time taken by time expected, of the commands that ran."""

    def __post_init__(self) -> None:
        self._began = self.clock()

    def known(self, command: Command) -> Mapping[str, Any] | None:
        """Return what is kept of the command: ``result`` and ``date``; None if it was not measured here."""
        file = self._file(command, ".json")
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) and {"result", "date"} <= found.keys() else None

    def fits(self, command: Command) -> bool:
        """Whether the command is likely to end within the time that is left."""
        return self._likely_minutes(command) <= self._left()

    def measure(self, command: Command) -> Mapping[str, Any]:
        """Run the command, and keep its result. Raises CommandError."""
        began, others = self.clock(), self.others()
        more = ["--save", str(self._file(command, ".jsonl"))] if command.saves else []
        limit = max(2 * self._likely_minutes(command), self._left()) * 60
        self.folder.mkdir(parents=True, exist_ok=True)
        out = self.run(["bench", *command.arguments, *more, "--json"], limit)
        try:
            result = json.loads(out)
        except ValueError:
            raise CommandError("it printed no JSON") from None
        taken = (self.clock() - began) / 60
        self._paces.append(taken / command.minutes)
        found = {
            "date": self.today(),
            "minutes": round(taken, 2),
            "others": others.share(self.place.cores),
            "result": result,
        }
        with atomic_path(self._file(command, ".json")) as temporary:
            temporary.write_text(json.dumps(found), encoding="utf-8")
        return found

    def _left(self) -> float:
        return self.minutes - (self.clock() - self._began) / 60

    def _likely_minutes(self, command: Command) -> float:
        """Return the minutes expected, by the pace of the slowest command so far."""
        return command.minutes * max(self._paces, default=1.0)

    def _file(self, command: Command, ending: str) -> Path:
        key = json.dumps([command.arguments, asdict(self.place)])
        name = f"{command.arguments[0]}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        return self.folder / f"{name}{ending}"
