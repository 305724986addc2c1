"""Drafters by name: the table of those that need no model, and a user's choice among them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgedec.core.drafter_manifest import HEAD
from edgedec.core.errors import UsageError
from edgedec.core.progress import Notice
from edgedec.draft import Drafter, Lookup, Recycling
from edgedec.memory.ledger import Ledger

if TYPE_CHECKING:
    from edgedec.loaded_model import LoadedModel

AUTO, OFF = "auto", "off"
MOST_DRAFTED = 15
"""Drafted tokens of a pass beside the committed one. Passes get expensive beyond 16 tokens."""


DRAFTERS: dict[str, type[Drafter]] = {kind.name: kind for kind in (Lookup, Recycling)}
"""Drafters that need no model; "auto" is all of them. A new one is its own file and a name here."""

EXIT = "exit"
"""Drafts with the target's own first layers; "exit-12" with the first 12, always. "skip-8-16" leaves
out the layers behind the eighth up to the 16th.
"""
OF_TARGET = (EXIT, HEAD)
"""Drafters that run parts of the target; ``target_drafters`` makes them."""
_OF_TARGET = re.compile(r"head|exit(-[1-9][0-9]{0,3})?|skip-[1-9][0-9]{0,3}-[1-9][0-9]{0,3}")


@dataclass(frozen=True, slots=True)
class Drafting:
    """A choice of drafters.

    ``names`` are drafters by comma: "auto" for all of ``DRAFTERS``, "off" for none, names of ``OF_TARGET``,
    and any other name is a draft model or its path. ``tokens`` is the most that is drafted for one pass.
    ``history``: drafters may keep on disk what they learned. ``prepared``: without a history they begin with
    tables that were prepared for the model, where there are some. ``tables``: bytes that all drafters without
    a model may learn; None for as many as are of use. ``always``: drafts are fed whether they pay or not.
    """

    names: str = AUTO
    tokens: int = MOST_DRAFTED
    history: bool = False
    prepared: bool = True
    always: bool = False
    tables: int | None = None

    def __post_init__(self) -> None:
        """Raises UsageError for an empty name, and for "off" beside others."""
        for name in self._listed:
            if not name or (name == OFF and self.names != OFF):
                raise no_drafter(name)

    @property
    def chosen(self) -> tuple[str, ...]:
        """Names of drafters that need no model."""
        return tuple(name for name in self._listed if name in DRAFTERS)

    @property
    def most_tables(self) -> int:
        """Bytes that drafters without a model can make use of."""
        return sum(DRAFTERS[name].useful_bytes for name in self.chosen)

    @property
    def of_target(self) -> tuple[str, ...]:
        """Names of drafters that run parts of the target."""
        return tuple(name for name in self._listed if _OF_TARGET.fullmatch(name))

    @property
    def models(self) -> tuple[str, ...]:
        """Names or paths of draft models."""
        others = {OFF, *self.chosen, *self.of_target}
        return tuple(name for name in self._listed if name not in others)

    @property
    def with_weights(self) -> bool:
        """Whether drafters with weights of their own were chosen: draft models, or a trained head."""
        return bool(self.models) or HEAD in self.of_target

    def without_models(self) -> str:
        """``names`` but for draft models and trained heads."""
        return ",".join((*self.chosen, *(name for name in self.of_target if name != HEAD))) or OFF

    @property
    def _listed(self) -> tuple[str, ...]:
        names = (DRAFTERS if name == AUTO else (name,) for name in self.names.split(","))
        return tuple(dict.fromkeys(name for some in names for name in some))


def no_drafter(name: str) -> UsageError:
    """Return the error for a name that neither a drafter nor a model has."""
    known = ", ".join((AUTO, OFF, *DRAFTERS, *OF_TARGET))
    return UsageError(
        f"there is no drafter {name[:40]!r}", hint=f"there are {known}, and models by name or path"
    )


def table_drafters(drafting: Drafting, ledger: Ledger) -> list[Drafter]:
    """Make the chosen drafters that need no model.

    Each gets its share of ``drafting.tables``, leased from ``ledger``.
    """
    most = drafting.most_tables
    share = 1.0 if drafting.tables is None or not most else min(drafting.tables / most, 1.0)
    found = []
    for name in drafting.chosen:
        nbytes = int(share * DRAFTERS[name].useful_bytes)
        found.append(DRAFTERS[name].within(nbytes))
        ledger.hold(found[-1], "tables", nbytes)
    return found


def can_draft(model: LoadedModel, drafting: Drafting, notice: Notice) -> bool:
    """Return whether drafters can be used; a line says so where named ones cannot."""
    if drafting.names == OFF:
        return False
    if model.backend.caps.trees and model.backend.caps.exact:
        return True
    if drafting.names != AUTO:
        notice(f"note: {model.name} runs without drafts; its bundle has no passes over trees of tokens")
    return False
