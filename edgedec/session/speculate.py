"""Speculation for a loaded model: which drafters there are, and what passes cost on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.core.errors import UsageError
from edgedec.core.types import ModelSpec
from edgedec.draft import Drafter, Lookup, Recycling
from edgedec.session.costs import CostFile, known_costs
from edgedec.speculation import Notice, Speculation
from edgedec.telemetry.stats import Clock

if TYPE_CHECKING:
    from edgedec.session.assemble import LoadedModel

DRAFTERS: Mapping[str, Callable[[ModelSpec], Drafter]] = {
    Lookup.name: lambda spec: Lookup(),
    Recycling.name: lambda spec: Recycling(spec.vocab_size),
}
AUTO, OFF = "auto", "off"
MOST_DRAFTED = 15
"""Tokens beside the committed one; passes get dear beyond 16."""


@dataclass(frozen=True, slots=True)
class Drafting:
    """What a user chose: ``names`` by comma, "auto" (all there are) or "off"; most tokens drafted at once."""

    names: str = AUTO
    tokens: int = MOST_DRAFTED

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

    None for "off", and for a model that cannot run trees of tokens; if drafters were named, a line says so.
    """
    if drafting.names == OFF:
        return None
    spec = model.forward.spec
    if not model.forward.caps.trees or not model.forward.caps.exact:
        if drafting.names != AUTO:
            notice(f"note: {spec.name} runs without drafts; its bundle has no passes over trees of tokens")
        return None
    drafters = [DRAFTERS[name](spec) for name in drafting.chosen]
    file = CostFile.of(model, costs)
    curve = known_costs(model, file, clock=clock, notice=notice)
    return Speculation(
        drafters, curve, limit=drafting.tokens, notice=notice, clock=clock, keep=file.write_quietly
    )
