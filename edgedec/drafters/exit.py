"""Exits of the target as drafters: "exit", "exit-12", and "skip-8-16" without a span of layers.

Their artefact is a trimmed head (``trim``), with which the exit after all layers may draft without a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from edgedec.bundle.drafter_manifest import TRIM, Target
from edgedec.core.errors import Remedy, UnsupportedError, UsageError
from edgedec.core.forward import Capabilities
from edgedec.core.quick_dataclass import dataclass
from edgedec.core_lib.promises import least_saved
from edgedec.draft import Drafter
from edgedec.drafters.artifacts import artifacts
from edgedec.drafters.interface import (
    BuildContext,
    DrafterKind,
    DrafterSpec,
    Offer,
    OpenContext,
    OpenDrafter,
    SearchContext,
)
from edgedec.drafters.trim import saved_share, trimmed_head

if TYPE_CHECKING:
    from edgedec.draft.exit import LayerSubset
    from edgedec.draft.trimmed import TrimmedHead

_EXIT = "exit"
_NAMES = re.compile(r"exit(-[1-9][0-9]{0,3})?|skip-[1-9][0-9]{0,3}-[1-9][0-9]{0,3}")


class ExitKind(DrafterKind):
    """Drafts with the target's own layers: "exit" with those that can pay, "exit-12" with the first 12.

    "skip-8-16" leaves out the layers behind the eighth up to the 16th.
    """

    name = _EXIT
    forms = ("skip-A-B",)
    parts = True

    def takes(self, name: str) -> bool:
        """See ``DrafterKind.takes``."""
        return bool(_NAMES.fullmatch(name))

    def unnamed(self, search: SearchContext, chosen: Sequence[DrafterSpec]) -> Iterator[Offer]:
        """Yield the exit after all layers, where a trimmed head saves most of a pass and no exit is named."""
        if search.batch or not search.has_parts or any(one.name.startswith(_EXIT) for one in chosen):
            return
        for found in artifacts(Target.of(search.manifest), search.home, search.bundle):
            if found.kind == TRIM and saved_share(found.path) >= least_saved():
                from edgedec.draft.exit import exit_name

                yield Offer(exit_name(search.manifest.spec.n_layers))

    def open(self, name: str, opening: OpenContext) -> OpenDrafter:
        """See ``DrafterKind.open``."""
        model, caps = opening.target, opening.target.backend.caps
        if not caps.exits and model.backend.device_bytes() and not model.spec.caches:
            raise UnsupportedError(
                f"{model.name} cannot draft with its own layers: they run on two devices",
                hint="run all of them on one, or use other drafters",
                remedy=Remedy("gpu_layers"),
            )
        if not caps.exits:
            raise UnsupportedError(
                f"{model.name} cannot draft with its own layers: its bundle has no early exits",
                hint="pull or export the model again, or use other drafters",
                remedy=Remedy("export"),
            )
        layers = None if name == _EXIT else _named(name, model.name, caps)
        return _OpenExit(layers, trimmed_head(model, model, opening.home, opening.notice))


@dataclass(frozen=True, slots=True)
class _OpenExit(OpenDrafter):
    """An exit of the target. ``layers``: None for those that can pay."""

    layers: LayerSubset | None
    trimmed: TrimmedHead | None

    def build(self, setting: BuildContext) -> list[Drafter]:
        """Make a drafter of each subset of the layers: control measures which of them drafts, and how far."""
        from edgedec.draft.exit import ExitDrafter, promising

        forward, ends = setting.forward, setting.target.tokenizer.info.eos_ids
        found = [self.layers] if self.layers else promising(forward, self.trimmed)
        trimmed = self.trimmed.again() if self.trimmed else None
        return [ExitDrafter(forward, one.exit, trimmed, ends, one.resume) for one in found]


def exits_of(caps: Capabilities) -> list[LayerSubset]:
    """Return the subsets of the first layers of a model, the largest one first."""
    from edgedec.draft.exit import LayerSubset

    return [LayerSubset(exit) for exit in caps.exits[::-1]]


def skips_of(caps: Capabilities) -> list[LayerSubset]:
    """Return the subsets without a span of layers; the first and the last layers always run."""
    from edgedec.draft.exit import LayerSubset

    inner = caps.exits[:-1]
    return [LayerSubset(exit, to) for exit in inner for to in inner if to > exit]


def _named(name: str, model: str, caps: Capabilities) -> LayerSubset:
    """Return the layers of a name. Raises UsageError for one that the model does not have."""
    kind = name.partition("-")[0]
    subsets = exits_of(caps) if kind == _EXIT else skips_of(caps)
    found = next((layers for layers in subsets if layers.name == name), None)
    if found:
        return found
    raise UsageError(f"{model} has no drafter {name}", hint=_known(kind, subsets))


def _known(kind: str, subsets: Sequence[LayerSubset]) -> str:
    if not subsets:
        return "it has too few layers to leave some out"
    if kind == _EXIT:
        return f"there are {', '.join((kind, *(layers.name for layers in subsets[::-1])))}"
    return f"there are names like {', '.join(layers.name for layers in subsets[:3])}"
