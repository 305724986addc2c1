"""Drafters that run parts of the target, by the names of ``drafting.OF_TARGET``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.core.drafter_manifest import HEAD
from edgedec.core.errors import Remedy, UnsupportedError, UsageError
from edgedec.core.exits import Bypass
from edgedec.core.forward import Capabilities, Forward
from edgedec.core.progress import Notice
from edgedec.draft import Drafter
from edgedec.draft.exit import ExitDrafter, Way
from edgedec.draft.trimmed import TrimmedHead
from edgedec.runtime.drafting import EXIT, Drafting
from edgedec.runtime.trim import trimmed_head
from edgedec.telemetry.mbsu import chain_efficiency

if TYPE_CHECKING:
    from edgedec.runtime.loaded_model import LoadedModel

_LAST_IS_RIGHT = 0.95
"""How often the exit after all layers is supposed to be right, with a trimmed head."""
_WORTH = 1.1
"""Least speed over plain decoding that a way to draft has to promise, so that it is tried."""
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
    ways: dict[str, Way] = {}
    for name in names:
        if name == EXIT:
            found = promising(exits_of(forward.caps), forward, trimmed)
            ways |= {way.name: way for way in found}
        else:
            way = _named(name, model.name, forward.caps)
            ways[way.name] = way
    return [ExitDrafter(forward, way.exit, trimmed, ends, way.bypass) for way in ways.values()]


def exits_of(caps: Capabilities) -> list[Way]:
    """Return the ways to draft after the first layers of a model, the last one first."""
    return [Way(exit) for exit in caps.exits[::-1]]


def skips_of(caps: Capabilities) -> list[Way]:
    """Return the ways to draft with a span of layers left out; the first and the last layers always run."""
    inner = caps.exits[:-1]
    return [Way(exit, Bypass(to)) for exit in inner for to in inner if to > exit]


def promising(ways: Sequence[Way], forward: Forward, trimmed: TrimmedHead | None) -> list[Way]:
    """Return the exits that can make decoding faster, the one that promises most first.

    An exit is supposed to be right as often as it runs layers; nearly all that were measured were right less
    often. Where all layers with a trimmed head promise more than fewer layers can, these are left out: to try
    them would only cost passes.
    """
    last = forward.caps.exits[-1]
    promises = {}
    for way in ways:
        right = _LAST_IS_RIGHT if way.exit == last else way.layers(last) / last
        promises[way] = speed_of(right, way.share(forward, trimmed))
    floor = max([_WORTH, *(value for way, value in promises.items() if way.exit == last)])
    chosen = [way for way in ways if promises[way] >= floor]
    return sorted(chosen, key=lambda way: -promises[way])


def speed_of(agreement: float, step: float) -> float:
    """Return the speed over plain decoding of the best chain of drafts, each right with this chance.

    ``step``: time of a draft step, in passes over one token.
    """
    lengths = range(1, _CHAIN + 1)
    return max(chain_efficiency(agreement, length) / (1.0 + length * step) for length in lengths)


def _named(name: str, model: str, caps: Capabilities) -> Way:
    """Return the way of a name. Raises UsageError for one that the model does not have."""
    kind = name.partition("-")[0]
    ways = exits_of(caps) if kind == EXIT else skips_of(caps)
    found = next((way for way in ways if way.name == name), None)
    if found:
        return found
    raise UsageError(f"{model} has no drafter {name}", hint=_known(kind, ways))


def _known(kind: str, ways: Sequence[Way]) -> str:
    if not ways:
        return "it has too few layers to leave some out"
    if kind == EXIT:
        return f"there are {', '.join((kind, *(way.name for way in ways[::-1])))}"
    return f"there are names like {', '.join(way.name for way in ways[:3])}"
