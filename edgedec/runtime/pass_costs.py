"""The costs of a model's passes on this machine: measured once, kept in a file, corrected as they drift."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.control import CostCurve
from edgedec.core.cache_config import KvType
from edgedec.core.errors import StorageError
from edgedec.core.files import atomic_path
from edgedec.core.forward import Forward
from edgedec.core.manifest import WEIGHTS
from edgedec.core.rows import ALL_ROWS
from edgedec.core.version import __version__
from edgedec.telemetry.stats import Clock

if TYPE_CHECKING:
    from edgedec.core.progress import Notice
    from edgedec.runtime.loaded_model import LoadedModel

_MEASURED = (1, 2, 4, 8, 16, 32, 64, 128)
LONGEST_TOKENS = 16
"""Tokens of the longest pass that one sequence verifies; a batch has longer ones."""
_ROUNDS, _MOST_ROUNDS = 3, 8
_ENOUGH_S = 0.5
"""More than the fewest rounds are made only while they are quicker than this."""
_QUIET_S = 1.0


@dataclass(frozen=True, slots=True)
class CostFile:
    """The file that keeps the pass costs of one model, on one machine, with one number of threads."""

    path: Path
    conditions: tuple[str, ...]

    @classmethod
    def of(cls, model: LoadedModel, kv: KvType | None, folder: Path) -> CostFile:
        """Name the file in ``folder`` after all that the costs depend on."""
        from edgedec.telemetry.machine import describe

        weights = model.manifest.files[WEIGHTS].sha256
        cache = ("int8",) if kv == "int8" else ()
        conditions = (__version__, weights, model.isa, str(model.threads), describe().cpu, *cache)
        digest = hashlib.sha256("|".join(conditions).encode()).hexdigest()
        return cls(folder / f"{digest[:24]}.json", conditions)

    def read(self) -> CostCurve | None:
        """Return the costs measured before, or None if there are none or the file is damaged."""
        try:
            seconds = json.loads(self.path.read_text(encoding="utf-8"))["seconds"]
            return CostCurve({int(tokens): float(time) for tokens, time in seconds.items()})
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None

    def write(self, seconds: Mapping[int, float]) -> None:
        """Replace the file. Raises StorageError."""
        with atomic_path(self.path) as temporary:
            content = json.dumps({"conditions": self.conditions, "seconds": dict(seconds)})
            temporary.write_text(content, encoding="utf-8")

    def write_quietly(self, seconds: Mapping[int, float]) -> None:
        """Replace the file in the middle of a conversation; on failure the next start uses older costs."""
        with suppress(StorageError):
            self.write(seconds)


def known_costs(
    forward: Forward, file: CostFile | None, *, clock: Clock, notice: Notice, longest: int = LONGEST_TOKENS
) -> CostCurve:
    """Read the costs of passes up to ``longest`` tokens from ``file``, or measure them in a second or two."""
    curve = file.read() if file else None
    if curve is not None and curve.longest >= _sizes(forward, longest)[-1]:
        return curve
    notice(f"measuring what passes of {forward.spec.name} cost on this machine, once")
    measured = measure_costs(forward, clock, notice, longest)
    try:
        if file:
            file.write(measured)
    except StorageError as error:
        notice(f"note: {error.message}; the next start measures again")
    return CostCurve(measured)


def measure_costs(
    forward: Forward, clock: Clock, notice: Notice, longest: int = LONGEST_TOKENS
) -> dict[int, float]:
    """Return the seconds of passes over 1 to ``longest`` tokens, all rows wanted. Empties the KV cache.

    Each is the least of some rounds, since other load only makes passes slower. Every round goes through all
    numbers of tokens, so that a machine that changes its speed changes it for all. ``notice`` hears of
    progress.
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
