"""Speculation for a loaded model: which drafters there are, and what passes cost on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.control import BatchCosts
from edgedec.core.errors import UsageError
from edgedec.core.leasing import LedgerLike
from edgedec.decode.speculation import Notice, Speculation
from edgedec.draft import Drafter, Lookup, Recycling
from edgedec.runtime.pairing import model_drafter
from edgedec.runtime.pass_costs import CostFile, known_costs
from edgedec.telemetry.stats import Clock

if TYPE_CHECKING:
    from edgedec.runtime.loaded_model import LoadedModel

DRAFTERS: Mapping[str, type[Drafter]] = {kind.name: kind for kind in (Lookup, Recycling)}
"""Drafters that need no model. A new one is its own file and its name here."""
AUTO, OFF = "auto", "off"
MOST_DRAFTED = 15
"""Tokens beside the committed one; passes get dear beyond 16."""


@dataclass(frozen=True, slots=True)
class Drafting:
    """What a user chose: ``names`` by comma, "auto" (all but models) or "off"; most tokens drafted at once.

    A name that is no drafter's is a model's, or its path.
    """

    names: str = AUTO
    tokens: int = MOST_DRAFTED
    history: bool = False
    """Whether drafters may keep what they learned on disk."""
    tables: int | None = None
    """Bytes that all drafters without a model may learn; None: as much as is of use."""

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
    tokens; if drafters were named, a line says so. Raises UnsupportedError for a model that cannot draft for
    this one.
    """
    if not _can_draft(model, drafting, notice):
        return None
    drafters = _drafters(drafting, model.forward.ledger)
    if open_draft is not None:
        drafters += [model_drafter(name, model, open_draft(name)) for name in drafting.models]
    file = CostFile.of(model, costs)
    curve = known_costs(model, file, clock=clock, notice=notice)
    return Speculation(
        drafters,
        curve,
        limit=drafting.tokens,
        notice=notice,
        clock=clock,
        keep=file.write_quietly,
    )


def speculations_for(
    model: LoadedModel, drafting: Drafting, count: int, costs: Path, *, notice: Notice
) -> tuple[list[Speculation], BatchCosts] | None:
    """As ``speculation_for``, for a batch of ``count`` sequences: each has its drafters, all share the costs.

    The time that drafting takes is that of the sequence's own thread. No model drafts: each sequence would
    need one of its own.
    """
    if not _can_draft(model, drafting, notice):
        return None
    file = CostFile.of(model, costs)
    longest, ledger = count * (1 + drafting.tokens), model.forward.ledger
    table = known_costs(model, file, clock=time.perf_counter, notice=notice, longest=longest)
    batch = BatchCosts(table, count)
    found = [
        Speculation(
            _drafters(drafting, ledger),
            view,
            limit=drafting.tokens,
            notice=notice,
            clock=time.thread_time,
            keep=file.write_quietly,
        )
        for view in batch.views
    ]
    return found, batch


def _can_draft(model: LoadedModel, drafting: Drafting, notice: Notice) -> bool:
    if drafting.names == OFF:
        return False
    if model.forward.caps.trees and model.forward.caps.exact:
        return True
    if drafting.names != AUTO:
        name = model.forward.spec.name
        notice(f"note: {name} runs without drafts; its bundle has no passes over trees of tokens")
    return False


def _drafters(drafting: Drafting, ledger: LedgerLike) -> list[Drafter]:
    """Those without a model, with an even share of the bytes that there are, leased from ``ledger``."""
    most = drafting.most_tables
    share = 1.0 if drafting.tables is None or not most else min(drafting.tables / most, 1.0)
    found = []
    for name in drafting.chosen:
        nbytes = int(share * DRAFTERS[name].useful_bytes)
        found.append(DRAFTERS[name].within(nbytes))
        ledger.hold(found[-1], "tables", nbytes)
    return found
