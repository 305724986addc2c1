"""Drafters that run parts of the target, by the names of ``drafting.OF_TARGET``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.core.drafter_manifest import HEAD
from edgedec.core.errors import Remedy, UnsupportedError, UsageError
from edgedec.core.forward import Capabilities, Forward
from edgedec.core.progress import Notice
from edgedec.draft import Drafter
from edgedec.draft.exit import ExitDrafter, exit_name
from edgedec.runtime.drafting import EXIT, Drafting
from edgedec.runtime.trim import trimmed_head

if TYPE_CHECKING:
    from edgedec.runtime.loaded_model import LoadedModel

_LATE = 0.75
"""Share of the layers before an exit that is worth a try. After fewer, three models that were not trained for
it agreed with themselves on at most a third of the tokens, and finding that out costs passes.
"""


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
        _exits(name, model.name, model.backend.caps)


def target_drafters(
    drafting: Drafting, model: LoadedModel, forward: Forward, home: Path | None, notice: Notice
) -> list[Drafter]:
    """Make the chosen drafters that run parts of ``model`` in ``forward``, its own KV cache.

    "exit" is a drafter for each late exit: which of them drafts, and how far, the control over drafters
    measures. It tries them in this order: the last one needs no training to be right, and is left out without
    a trimmed head, because a step would then take as long as a pass. All have the trimmed
    head that belongs to the model, in ``home`` or with the package; ``notice`` says why one cannot be used.
    """
    exits = [one for name in drafting.of_target for one in _exits(name, model.name, forward.caps)]
    if not exits:
        return []
    trimmed, ends = trimmed_head(model, model, home, notice), model.tokenizer.info.eos_ids
    last = forward.caps.exits[-1]
    if trimmed is None and exit_name(last) not in drafting.of_target:
        exits = [exit for exit in exits if exit != last]
    return [ExitDrafter(forward, exit, trimmed, ends) for exit in dict.fromkeys(exits)]


def _exits(name: str, model: str, caps: Capabilities) -> tuple[int, ...]:
    """Return the layer counts that a name stands for; none for the trained head."""
    if name == HEAD:
        return ()
    if name == EXIT:
        return tuple(exit for exit in caps.exits[::-1] if exit >= _LATE * caps.exits[-1])
    for exit in caps.exits:
        if exit_name(exit) == name:
            return (exit,)
    known = ", ".join(map(exit_name, caps.exits))
    raise UsageError(f"{model} has no drafter {name}", hint=f"there are {EXIT}, {known}")
