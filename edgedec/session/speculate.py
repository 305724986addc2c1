"""Speculation for a loaded model: which drafters there are, and what passes cost on this machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec import __version__
from edgedec.control import CostCurve
from edgedec.core.errors import StorageError, UsageError
from edgedec.core.files import atomic_path
from edgedec.core.manifest import WEIGHTS
from edgedec.core.types import ALL_ROWS, Forward, ModelSpec
from edgedec.draft import Drafter, Lookup, Recycling
from edgedec.speculation import Notice, Speculation
from edgedec.telemetry.stats import Clock

if TYPE_CHECKING:
    from edgedec.session.assemble import LoadedModel

DRAFTERS: Mapping[str, Callable[[ModelSpec], Drafter]] = {
    Lookup.name: lambda spec: Lookup(),
    Recycling.name: lambda spec: Recycling(),
}
AUTO, OFF = "auto", "off"
MOST_DRAFTED = 15
"""Tokens beside the committed one; passes get dear beyond 16."""

_MEASURED = (1, 2, 4, 8, 16)
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Drafting:
    """What a user chose: ``names`` by comma, "auto" (all there are) or "off"; most tokens drafted at once."""

    names: str = OFF
    tokens: int = MOST_DRAFTED
    history: bool = False
    """Whether drafters may keep what they learned on disk."""

    def __post_init__(self) -> None:
        """Raises UsageError for a drafter that does not exist."""
        for name in self.names.split(","):
            if name not in DRAFTERS and self.names not in (AUTO, OFF):
                known = ", ".join((AUTO, OFF, *DRAFTERS))
                raise UsageError(f"there is no drafter {name[:40]!r}", hint=f"there are {known}")

    @property
    def chosen(self) -> tuple[str, ...]:
        """Names of drafters."""
        if self.names == OFF:
            return ()
        return tuple(DRAFTERS) if self.names == AUTO else tuple(dict.fromkeys(self.names.split(",")))


def speculation_for(
    model: LoadedModel, drafting: Drafting, costs: Path, *, clock: Clock, notice: Notice
) -> Speculation | None:
    """The drafters, with what passes cost: measured once per model, machine and threads, kept in ``costs``.

    None for "off", and for a model that cannot run trees of tokens; then a line says so.
    """
    if drafting.names == OFF:
        return None
    spec = model.forward.spec
    if not model.forward.caps.trees or not model.forward.caps.exact:
        notice(f"note: {spec.name} runs without drafts; its bundle has no passes over trees of tokens")
        return None
    drafters = [DRAFTERS[name](spec) for name in drafting.chosen]
    curve = known_costs(model, costs, clock=clock, notice=notice)
    return Speculation(drafters, curve, limit=drafting.tokens, notice=notice, clock=clock)


def known_costs(model: LoadedModel, folder: Path, *, clock: Clock, notice: Notice) -> CostCurve:
    """From ``folder`` if these passes were measured before, else measured now, in a second or two."""
    from edgedec.telemetry.machine import describe

    weights = model.manifest.files[WEIGHTS].sha256
    conditions = [__version__, weights, model.isa, str(model.threads), describe().cpu]
    file = folder / f"{hashlib.sha256('|'.join(conditions).encode()).hexdigest()[:24]}.json"
    if (curve := _read(file)) is not None:
        return curve
    notice(f"measuring what passes of {model.manifest.name} cost on this machine, once")
    measured = measure_costs(model.forward, clock)
    try:
        with atomic_path(file) as temporary:
            temporary.write_text(
                json.dumps({"conditions": conditions, "seconds": measured}), encoding="utf-8"
            )
    except StorageError as error:
        notice(f"note: {error.message}; the next start measures again")
    return CostCurve(measured)


def measure_costs(forward: Forward, clock: Clock) -> dict[int, float]:
    """Seconds of passes over 1 to 16 tokens, all rows wanted, the least of some rounds; empties the cache."""
    least: dict[int, float] = {}
    sizes = [size for size in _MEASURED if size <= min(forward.capacity, forward.caps.max_pass)]
    for _ in range(_ROUNDS):
        for size in sizes:
            forward.rewind(0)
            began = clock()
            forward.extend([0] * size, rows=ALL_ROWS)
            least[size] = min(clock() - began, least.get(size, float("inf")))
    forward.rewind(0)
    return least


def _read(file: Path) -> CostCurve | None:
    """What was measured before, or None if nothing was or the file says nothing useful."""
    try:
        seconds = json.loads(file.read_text(encoding="utf-8"))["seconds"]
        return CostCurve({int(tokens): float(time) for tokens, time in seconds.items()})
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
