"""What passes of a model cost on this machine: measured once, kept in a file, corrected as it drifts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec import __version__
from edgedec.control import CostCurve
from edgedec.core.errors import StorageError
from edgedec.core.files import atomic_path
from edgedec.core.forward import Forward
from edgedec.core.manifest import WEIGHTS
from edgedec.core.rows import ALL_ROWS
from edgedec.telemetry.stats import Clock

if TYPE_CHECKING:
    from edgedec.decode.speculation import Notice
    from edgedec.runtime.loaded_model import LoadedModel

_MEASURED = (1, 2, 4, 8, 16, 32, 64, 128)
LONGEST = 16
"""Tokens of a pass of one conversation; several have longer ones."""
_ROUNDS, _MOST_ROUNDS = 3, 8
_ENOUGH_S = 0.5
"""More than the fewest rounds only as long as they are quick."""
_QUIET_S = 1.0


@dataclass(frozen=True, slots=True)
class CostFile:
    """Where the costs of one model are kept, on one machine, with one number of threads."""

    path: Path
    conditions: tuple[str, ...]

    @classmethod
    def of(cls, model: LoadedModel, folder: Path) -> CostFile:
        from edgedec.telemetry.machine import describe

        weights = model.manifest.files[WEIGHTS].sha256
        cache = ("int8",) if model.kv == "int8" else ()
        conditions = (__version__, weights, model.isa, str(model.threads), describe().cpu, *cache)
        digest = hashlib.sha256("|".join(conditions).encode()).hexdigest()
        return cls(folder / f"{digest[:24]}.json", conditions)

    def read(self) -> CostCurve | None:
        """What was measured before, or None if nothing was or the file says nothing useful."""
        try:
            seconds = json.loads(self.path.read_text(encoding="utf-8"))["seconds"]
            return CostCurve({int(tokens): float(time) for tokens, time in seconds.items()})
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None

    def write(self, seconds: Mapping[int, float]) -> None:
        """Raises StorageError."""
        with atomic_path(self.path) as temporary:
            content = json.dumps({"conditions": self.conditions, "seconds": dict(seconds)})
            temporary.write_text(content, encoding="utf-8")

    def write_quietly(self, seconds: Mapping[int, float]) -> None:
        """In the middle of a conversation: if it cannot be written, the next start uses older costs."""
        with suppress(StorageError):
            self.write(seconds)


def known_costs(
    model: LoadedModel, file: CostFile, *, clock: Clock, notice: Notice, longest: int = LONGEST
) -> CostCurve:
    """From ``file`` if passes up to ``longest`` tokens (or the model's longest) were measured before, else
    measured now, in a second or two.
    """
    curve = file.read()
    if curve is not None and curve.longest >= _sizes(model.forward, longest)[-1]:
        return curve
    notice(f"measuring what passes of {model.manifest.name} cost on this machine, once")
    measured = measure_costs(model.forward, clock, notice, longest)
    try:
        file.write(measured)
    except StorageError as error:
        notice(f"note: {error.message}; the next start measures again")
    return CostCurve(measured)


def measure_costs(forward: Forward, clock: Clock, notice: Notice, longest: int = LONGEST) -> dict[int, float]:
    """Seconds of passes over 1 to ``longest`` tokens, all rows wanted; empties the cache.

    The least of some rounds: what else the machine does makes passes slower, never quicker. Rounds go through
    all numbers of tokens, so that a machine that changes its speed changes it for all. ``notice`` hears of
    what takes long.
    """
    least: dict[int, float] = {}
    sizes = _sizes(forward, longest)
    started = spoken = clock()
    for turn in range(_MOST_ROUNDS):
        if turn >= _ROUNDS and clock() - started > _ENOUGH_S:
            break
        for size in sizes:
            forward.rewind(0)
            began = clock()
            forward.extend([0] * size, rows=ALL_ROWS)
            ended = clock()
            least[size] = min(ended - began, least.get(size, float("inf")))
            if ended - spoken > _QUIET_S:
                done = (turn + (sizes.index(size) + 1) / len(sizes)) / _ROUNDS
                notice(f"measuring: {min(100 * done, 99):.0f}%")
                spoken = ended
    forward.rewind(0)
    return least


def _sizes(forward: Forward, longest: int) -> list[int]:
    most = min(longest, forward.capacity, forward.caps.max_pass)
    return [size for size in _MEASURED if size <= most]
