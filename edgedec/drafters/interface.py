"""The interface of all kinds of drafters: to name, find, plan for and build them.

A kind is an instance of ``DrafterKind`` in a file of its own, and has a place in ``registry.KINDS``. It opens
a drafter that was chosen, which then states its memory for the plan and builds what drafts. All that it may
need is handed to it: the target and its forward, the ledger, the folder where artefacts are kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from edgedec.bundle.manifest import DRAFTING, Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.forward import Forward
from edgedec.core.ledger import Ledger
from edgedec.core.progress import Notice
from edgedec.core.quick_dataclass import dataclass
from edgedec.decode.conversation_clock import ConversationClock
from edgedec.draft import Drafter
from edgedec.loaded_model import LoadedModel
from edgedec.memory.footprint import DrafterMemory


@dataclass(frozen=True, slots=True)
class DrafterSpec:
    """A drafter that was chosen: the name of its kind, and its own, as users write it."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class SearchContext:
    """The facts by which drafters are found that nobody named, before a model is loaded."""

    manifest: Manifest
    """The target's."""
    home: Path | None
    """The folder that keeps artefacts."""
    batch: bool = False
    """Whether several conversations share each pass."""
    switch: str | None = None
    """The small model that takes turns with the target."""
    known: Path | None = None
    """The bundle of an installed model that is known to draft well for the target."""
    missing: Callable[[], str] = str
    """Says why the machine has too little memory for ``known``; "" where it has enough."""
    bundle: Path | None = None
    """The target's, which may carry drafters."""
    split: bool = False
    """Whether the target's layers run on two devices."""

    @property
    def has_parts(self) -> bool:
        """Whether drafters can run parts of the target: its bundle has the graph for that, one device all."""
        return DRAFTING in self.manifest.files and not self.split


@dataclass(frozen=True, slots=True)
class Offer:
    """A drafter that "auto" has without its name; or that it has not, and why."""

    name: str
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The memory of a drafter before it is opened, and bytes that opening it takes beyond its weights."""

    memory: DrafterMemory
    opening: int


@dataclass(frozen=True, slots=True)
class OpenContext:
    """The context in which a drafter is opened. ``load`` opens a model by the name that was given to it."""

    target: LoadedModel
    home: Path | None
    notice: Notice
    load: Callable[[str], LoadedModel]
    conversations: int = 1
    """Conversations that it is to draft for at once."""


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """The place of a drafter among several conversations: ``number`` of ``count``, charged by ``clock``."""

    number: int
    count: int
    clock: ConversationClock


@dataclass(frozen=True, slots=True)
class BuildContext:
    """The run that a drafter is built into."""

    target: LoadedModel
    forward: Forward
    """The target's KV cache of the conversation."""
    ledger: Ledger
    """The account of the drafter's memory: its own part of the plan, if it stated one."""
    share: float
    """Part of the useful table bytes that it may have, 0 to 1."""
    cache: Callable[[LoadedModel], CacheConfig]
    """Chooses the KV cache of another model."""
    place: BatchPlace | None = None
    """None for a single conversation."""


class OpenDrafter(ABC):
    """A drafter that was chosen and opened: it can be planned for, and built."""

    memory: DrafterMemory | None = None
    """The memory that the plan reserves for it; None for one without weights of its own."""
    table_bytes: int = 0
    """Bytes of learned data beyond which it drafts no better."""
    models: Sequence[LoadedModel] = ()
    """Models that it runs beside the target."""

    @abstractmethod
    def build(self, setting: BuildContext) -> list[Drafter]:
        """Make what drafts; a new one for each engine, which knows no text. Empty where none can pay."""

    def close(self) -> None:
        """End threads of its own. Default: it has none."""
        return


class DrafterKind(ABC):
    """A kind of drafter."""

    name: str
    """Its name, and that of its usual drafter."""
    forms: ClassVar[tuple[str, ...]] = ()
    """Further names of its drafters, for people, such as "skip-A-B"."""
    parts: ClassVar[bool] = False
    """Whether its drafters run parts of the target or read its hidden states, and need its drafting graph."""
    batches: ClassVar[bool] = False
    """Whether they draft for several conversations at once."""
    always: ClassVar[bool] = False
    """Whether "auto" begins with it, for every model."""

    def takes(self, name: str) -> bool:
        """Return whether a drafter of this name is of this kind."""
        return name == self.name

    def unnamed(self, search: SearchContext, chosen: Sequence[DrafterSpec]) -> Iterable[Offer]:
        """Yield the drafters that "auto" has without their names, beside those ``chosen``. Default: none."""
        return ()

    def taps(self, name: str, search: SearchContext) -> tuple[int, ...]:
        """Return layers of the target whose outputs the drafter of this name needs.

        Only those that the target's graph for drafting may not hand out by itself. Default: none.
        """
        return ()

    def weight_bytes(self, name: str, search: SearchContext, bundle: Path | None) -> int:
        """Return the bytes of weights that a drafter has beside the target's, before it is opened.

        ``bundle``: that of the model with this name, if one was named. 0 for a drafter that cannot be read:
        opening it says why. Default: it has none.
        """
        return 0

    def estimated(self, search: SearchContext, bundle: Path, threads: int) -> Estimate | None:
        """Return the memory of a drafter that runs the model in ``bundle``, before it is opened.

        None for one that takes next to nothing to open.
        """
        return None

    @abstractmethod
    def open(self, name: str, opening: OpenContext) -> OpenDrafter | None:
        """Open the drafter of this name.

        None where it cannot be used, after a line to ``opening.notice``. Raises UsageError, NotFoundError or
        UnsupportedError for a name that this target has no drafter for.
        """
