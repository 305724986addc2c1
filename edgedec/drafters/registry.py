"""The kinds of drafters, and a user's choice among them, parsed once into specs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.draft import Drafter, Lookup, Recycling
from edgedec.drafters.assistant import AssistantKind
from edgedec.drafters.exit import ExitKind
from edgedec.drafters.head import HeadKind
from edgedec.drafters.interface import DrafterKind, DrafterSpec, OpenDrafter, SearchContext
from edgedec.drafters.model import ModelKind
from edgedec.drafters.mtp import MtpKind
from edgedec.drafters.tables import TableKind

AUTO, OFF = "auto", "off"
MOST_DRAFTED = 15
"""Drafted tokens of a pass beside the committed one. Passes get expensive beyond 16 tokens."""

KINDS: tuple[DrafterKind, ...] = (
    TableKind(Lookup),
    TableKind(Recycling),
    ExitKind(),
    HeadKind(),
    MtpKind(),
    AssistantKind(),
    ModelKind(),
)
"""All kinds of drafters. A new one is its own file and a line here, or a class that a program adds. The last
one takes every other name.
"""

_OWN = KINDS[:-1]
_AUTO = DrafterSpec(AUTO, AUTO)
"""Stands for the drafters that suit the model, until ``resolved``."""


@dataclass(frozen=True, slots=True)
class Drafting:
    """How an engine drafts.

    ``tokens`` is the most that is drafted for one pass. ``history``: drafters may keep on disk what they
    learned. ``prepared``: without a history they begin with tables that were prepared for the model, where
    there are some. ``tables``: bytes that all drafters together may learn; None for as many as are of use.
    ``always``: drafts are fed whether they pay or not.
    """

    drafters: tuple[DrafterSpec, ...] = ()
    tokens: int = MOST_DRAFTED
    history: bool = False
    prepared: bool = True
    always: bool = False
    tables: int | None = None

    def share(self, opened: Sequence[OpenDrafter]) -> float:
        """Return the part of the useful table bytes of these drafters that they may have, 0 to 1."""
        most = sum(one.table_bytes for one in opened)
        return 1.0 if self.tables is None or not most else min(self.tables / most, 1.0)


@dataclass(frozen=True, slots=True)
class Resolved:
    """Drafters of a run; ``unnamed``: those that "auto" has without names; ``lines``: why not others."""

    drafters: tuple[DrafterSpec, ...] = ()
    unnamed: frozenset[DrafterSpec] = frozenset()
    lines: tuple[str, ...] = ()


def add_drafter(drafter: type[Drafter]) -> None:
    """Let runs of this process draft with a class of one's own: by its ``name``, and with "auto".

    Each conversation has an instance, made by ``Drafter.within``. A class of the same name that was added
    before goes. Raises UsageError for a name that is none, or that EdgeDec's drafters have.
    """
    global KINDS
    name = getattr(drafter, "name", "")
    if (
        not re.fullmatch(r"[a-z][a-z0-9_-]*", name)
        or any(kind.takes(name) for kind in _OWN)
        or name in (AUTO, OFF)
    ):
        raise UsageError(
            f"a drafter cannot have the name {name!r:.40}", hint="use small letters, and none of " + names()
        )
    others = (kind for kind in KINDS[:-1] if kind.name != name)
    KINDS = (*others, TableKind(drafter), KINDS[-1])


def parsed(text: str) -> tuple[DrafterSpec, ...]:
    """Parse names of drafters by comma: "auto", "off", names of kinds, and models by name or path.

    Raises UsageError for an empty name, and for "off" beside others.
    """
    if text == OFF:
        return ()
    return tuple(dict.fromkeys(_spec(name) for name in text.split(",")))


def resolved(specs: Sequence[DrafterSpec], search: SearchContext | None) -> Resolved:
    """Replace "auto" by drafters; ``search`` None: only by those that every model has."""
    chosen = [one for spec in specs for one in (_for_every_model() if spec == _AUTO else [spec])]
    unnamed: list[DrafterSpec] = []
    lines: list[str] = []
    if search and _AUTO in specs:
        for kind in KINDS:
            for offer in kind.unnamed(search, chosen):
                spec = DrafterSpec(kind.name, offer.name)
                if offer.why_not:
                    lines.append(f"{search.manifest.name} runs without {offer.name}: {offer.why_not}")
                elif spec not in chosen:
                    chosen.append(spec)
                    unnamed.append(spec)
    return Resolved(tuple(dict.fromkeys(chosen)), frozenset(unnamed), tuple(lines))


def kind_of(spec: DrafterSpec) -> DrafterKind:
    """Return the kind of a drafter."""
    return next(kind for kind in KINDS if kind.name == spec.kind)


def in_order(specs: Sequence[DrafterSpec]) -> list[DrafterSpec]:
    """Return drafters in the order in which control hears of them: that of ``KINDS``, tables as named."""
    places = {kind.name: 0 if kind.always else 1 + place for place, kind in enumerate(KINDS)}
    return sorted(specs, key=lambda spec: places[spec.kind])


def models_in(specs: Sequence[DrafterSpec]) -> tuple[str, ...]:
    """Return the names or paths of the draft models among ``specs``."""
    return tuple(spec.name for spec in specs if spec.kind == ModelKind.name)


def names() -> str:
    """Return the names of drafters but for models, by comma."""
    named = [kind for kind in KINDS if kind.name != ModelKind.name]
    return ", ".join(name for kind in named for name in (kind.name, *kind.forms))


def no_drafter(name: str) -> UsageError:
    """Return the error for a name that neither a drafter nor a model has."""
    known = f"{AUTO}, {OFF}, {names()}"
    return UsageError(
        f"there is no drafter {name[:40]!r}", hint=f"there are {known}, and models by name or path"
    )


def _spec(name: str) -> DrafterSpec:
    if name == AUTO:
        return _AUTO
    if name in ("", OFF):
        raise no_drafter(name)
    return next(DrafterSpec(kind.name, name) for kind in KINDS if kind.takes(name))


def _for_every_model() -> list[DrafterSpec]:
    return [DrafterSpec(kind.name, kind.name) for kind in KINDS if kind.always]
