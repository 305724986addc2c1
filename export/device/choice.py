"""The drafters that a device's folder carries, by the names that a user gives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgedec.bundle.drafter_manifest import DRAFTER, KINDS, DrafterManifest, Target
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import NotFoundError, UsageError
from edgedec.drafters.artifacts import DrafterArtifact, artifacts, kinds_here
from edgedec.drafters.registry import AUTO, OFF, kind_of, models_in, parsed


def named_model(names: Sequence[str]) -> str | None:
    """Return the small model among the names of drafters; None without one.

    A name is a kind (trim, tables, head, mtp, assistant), the folder of such a drafter, auto, off, or a small
    model. Raises UsageError for a name of another drafter, and for a second model.
    """
    models: dict[str, None] = {}
    for name in names:
        if name in (*KINDS, AUTO, OFF) or _is_drafter(name):
            continue
        if models_in(parsed(name)):
            models[name] = None
        else:
            kind = kind_of(parsed(name)[0]).name
            raise UsageError(f"the drafter {kind} has no files", hint="every device has it without them")
    if len(models) > 1:
        raise UsageError("only one small model drafts on a device", hint="name one")
    return next(iter(models), None)


def choose_drafters(names: Sequence[str], bundle: Path, home: Path | None) -> tuple[DrafterArtifact, ...]:
    """Return the drafters that belong to the target in ``bundle``, checked; ``names`` as in ``named_model``.

    Where kinds are named, only these are chosen, and none with off. Raises NotFoundError for one that is not
    there, UsageError for off beside others, BadFileError for a drafter that is damaged or belongs to another
    target.
    """
    target = Target.of(Manifest.load(bundle))
    there = {one.kind: one for one in artifacts(target, home, bundle)}
    chosen: dict[str, DrafterArtifact] = {}
    for name in names:
        if name in KINDS:
            if name not in there:
                raise NotFoundError(f"{target.name} has no drafter {name}", hint=_known(there))
            chosen[name] = there[name]
        elif _is_drafter(name):
            kind = DrafterManifest.load(Path(name), verify=False).kind
            chosen[kind] = DrafterArtifact(kind, Path(name), shipped=False)
    if OFF in names and chosen:
        raise UsageError("off leaves out the drafters of the model", hint="name those that are wanted alone")
    found = tuple((chosen if chosen or OFF in names else there).values())
    for one in found:
        one.checked(target)
    return found


def check_kinds(names: Sequence[str], home: Path) -> None:
    """Raise NotFoundError for a named kind of drafter that no model has.

    For a target whose bundle is not made yet: whether a drafter belongs to it is known only then.
    """
    missing = [name for name in names if name in KINDS and name not in kinds_here(home)]
    if missing:
        raise NotFoundError(f"no model here has a drafter {missing[0]}", hint="make one, or leave it out")


def _is_drafter(name: str) -> bool:
    try:
        return (Path(name) / DRAFTER).is_file()
    except (OSError, ValueError):  # too long, or no path at all
        return False


def _known(there: dict[str, DrafterArtifact]) -> str:
    if there:
        return f"it has {', '.join(there)}"
    return "make one, or leave it out"
