"""Drafters that run parts of the target, by the names of ``drafting.OF_TARGET``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.core.drafter_manifest import HEAD
from edgedec.core.errors import Remedy, UnsupportedError, UsageError
from edgedec.core.forward import Capabilities, Forward
from edgedec.core.progress import Notice
from edgedec.draft import Drafter
from edgedec.draft.exit import ExitDrafter, LayerSubset
from edgedec.draft.trimmed import TrimmedHead
from edgedec.drafters.drafting import EXIT, Drafting
from edgedec.drafters.trim import trimmed_head
from edgedec.metrics.mbsu import chain_efficiency

if TYPE_CHECKING:
    from edgedec.loaded_model import LoadedModel

_LAST_IS_RIGHT = 0.95
"""How often the exit after all layers is supposed to be right, with a trimmed head."""
_WORTH = 1.1
"""Least speed over plain decoding that a subset of the layers has to promise, so that it is tried."""
_CHAIN = 8


def check_target_drafting(drafting: Drafting, model: LoadedModel) -> None:
    """Raise UnsupportedError for a target without early exits, UsageError for an exit that it does not have.

    Nothing is raised where ``drafting`` names no drafter of the target.
    """
    for name in drafting.of_target:
        if name == HEAD:
            continue
        if not model.backend.caps.exits:
            raise UnsupportedError(
                f"{model.name} cannot draft with its own layers: its bundle has no early exits",
                hint="pull or export the model again, or use other drafters",
                remedy=Remedy("export"),
            )
        if name != EXIT:
            _named(name, model.name, model.backend.caps)


def target_drafters(
    drafting: Drafting, model: LoadedModel, forward: Forward, home: Path | None, notice: Notice
) -> list[Drafter]:
    """Make the chosen drafters that run parts of ``model`` in ``forward``, its own KV cache.

    "exit" stands for the exits that can pay: each is a drafter, and which of them drafts, and how far, the
    control over drafters measures. All have the trimmed head that belongs to the model, in ``home`` or with
    the package; ``notice`` says why it cannot be used.
    """
    names = [name for name in drafting.of_target if name != HEAD]
    if not names:
        return []
    trimmed, ends = trimmed_head(model, model, home, notice), model.tokenizer.info.eos_ids
    subsets: dict[str, LayerSubset] = {}
    for name in names:
        if name == EXIT:
            found = promising(exits_of(forward.caps), forward, trimmed)
            subsets |= {layers.name: layers for layers in found}
        else:
            layers = _named(name, model.name, forward.caps)
            subsets[layers.name] = layers
    return [ExitDrafter(forward, layers.exit, trimmed, ends, layers.resume) for layers in subsets.values()]


def exits_of(caps: Capabilities) -> list[LayerSubset]:
    """Return the subsets of the first layers of a model, the largest one first."""
    return [LayerSubset(exit) for exit in caps.exits[::-1]]


def skips_of(caps: Capabilities) -> list[LayerSubset]:
    """Return the subsets without a span of layers; the first and the last layers always run."""
    inner = caps.exits[:-1]
    return [LayerSubset(exit, to) for exit in inner for to in inner if to > exit]


def promising(
    subsets: Sequence[LayerSubset], forward: Forward, trimmed: TrimmedHead | None
) -> list[LayerSubset]:
    """Return the exits that can make decoding faster, the one that promises most first.

    An exit is supposed to be right as often as it runs layers; nearly all that were measured were right less
    often. Where all layers with a trimmed head promise more than fewer layers can, these are left out: to try
    them would only cost passes.
    """
    last = forward.caps.exits[-1]
    promises = {}
    for layers in subsets:
        right = _LAST_IS_RIGHT if layers.exit == last else layers.count(last) / last
        promises[layers] = speed_of(right, layers.share(forward, trimmed))
    floor = max([_WORTH, *(value for layers, value in promises.items() if layers.exit == last)])
    chosen = [layers for layers in subsets if promises[layers] >= floor]
    return sorted(chosen, key=lambda layers: -promises[layers])


def speed_of(agreement: float, step: float) -> float:
    """Return the speed over plain decoding of the best chain of drafts, each right with this chance.

    ``step``: time of a draft step, in passes over one token.
    """
    lengths = range(1, _CHAIN + 1)
    return max(chain_efficiency(agreement, length) / (1.0 + length * step) for length in lengths)


def _named(name: str, model: str, caps: Capabilities) -> LayerSubset:
    """Return the layers of a name. Raises UsageError for one that the model does not have."""
    kind = name.partition("-")[0]
    subsets = exits_of(caps) if kind == EXIT else skips_of(caps)
    found = next((layers for layers in subsets if layers.name == name), None)
    if found:
        return found
    raise UsageError(f"{model} has no drafter {name}", hint=_known(kind, subsets))


def _known(kind: str, subsets: Sequence[LayerSubset]) -> str:
    if not subsets:
        return "it has too few layers to leave some out"
    if kind == EXIT:
        return f"there are {', '.join((kind, *(layers.name for layers in subsets[::-1])))}"
    return f"there are names like {', '.join(layers.name for layers in subsets[:3])}"
