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
from edgedec.session.pairing import model_drafter
from edgedec.speculation import Notice, Speculation
from edgedec.telemetry.stats import Clock
from edgedec.verify import KEYED, RULES

if TYPE_CHECKING:
    from edgedec.session.assemble import LoadedModel

DRAFTERS: Mapping[str, Callable[[ModelSpec], Drafter]] = {
    Lookup.name: lambda spec: Lookup(),
    Recycling.name: lambda spec: Recycling(spec.vocab_size),
}
AUTO, OFF = "auto", "off"
MOST_DRAFTED = 15
"""Tokens beside the committed one; passes get dear beyond 16."""

_MEASURED = (1, 2, 4, 8, 16)
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Drafting:
    """What a user chose: ``names`` by comma, "auto" (all but models) or "off"; most tokens drafted at once;
    how they are verified. A name that is no drafter's is a model's, or its path.
    """

    names: str = OFF
    tokens: int = MOST_DRAFTED
    rule: str = KEYED

    def __post_init__(self) -> None:
        """Raises UsageError for an empty name, "off" beside others, and a rule that does not exist."""
        for name in self._listed:
            if not name or (name == OFF and self.names != OFF):
                raise no_drafter(name)
        if self.rule not in (KEYED, *RULES):
            known = ", ".join((KEYED, *RULES))
            raise UsageError(f"there is no rule {self.rule[:40]!r} for drafts", hint=f"there are {known}")

    @property
    def chosen(self) -> tuple[str, ...]:
        """Names of drafters that need no model."""
        return tuple(name for name in self._listed if name in DRAFTERS)

    @property
    def models(self) -> tuple[str, ...]:
        """Names or paths of models that draft."""
        return tuple(name for name in self._listed if name not in DRAFTERS and name != OFF)

    @property
    def _listed(self) -> tuple[str, ...]:
        names = (DRAFTERS if name == AUTO else (name,) for name in self.names.split(","))
        return tuple(dict.fromkeys(name for some in names for name in some))


def no_drafter(name: str) -> UsageError:
    """What to say of a name that is nothing's."""
    known = ", ".join((AUTO, OFF, *DRAFTERS))
    return UsageError(
        f"there is no drafter {name[:40]!r}", hint=f"there are {known}, and models by name or path"
    )


def speculation_for(
    model: LoadedModel,
    drafting: Drafting,
    costs: Path,
    *,
    clock: Clock,
    notice: Notice,
    open_draft: Callable[[str], LoadedModel] | None = None,
) -> Speculation | None:
    """The drafters, with what passes cost: measured once per model, machine and threads, kept in ``costs``.

    ``open_draft`` loads the models that draft. None for "off", and for a model that cannot run trees of
    tokens; then a line says so. Raises UnsupportedError for a model that cannot draft for this one.
    """
    if drafting.names == OFF:
        return None
    spec = model.forward.spec
    if not model.forward.caps.trees or not model.forward.caps.exact:
        notice(f"note: {spec.name} runs without drafts; its bundle has no passes over trees of tokens")
        return None
    drafters = [DRAFTERS[name](spec) for name in drafting.chosen]
    if open_draft is not None:
        drafters += [model_drafter(name, model, open_draft(name)) for name in drafting.models]
    curve = known_costs(model, costs, clock=clock, notice=notice)
    return Speculation(drafters, curve, limit=drafting.tokens, rule=drafting.rule, notice=notice, clock=clock)


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
