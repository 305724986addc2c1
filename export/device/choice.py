"""The drafters that a device's folder carries, by the names that a user gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgedec.core.drafter_manifest import DRAFTER, KINDS, DrafterManifest, Target
from edgedec.core.errors import NotFoundError, UsageError
from edgedec.core.manifest import Manifest
from edgedec.drafters.artifacts import DrafterArtifact, artifacts
from edgedec.drafters.registry import OFF, kind_of, models_in, parsed


@dataclass(frozen=True, slots=True)
class ChosenDrafters:
    """Drafters that belong to the target, checked; ``model``: the name or path of a small model, or None."""

    artifacts: tuple[DrafterArtifact, ...]
    model: str | None = None


def choose_drafters(names: Sequence[str], bundle: Path, home: Path | None) -> ChosenDrafters:
    """Return the drafters of ``names`` for the target in ``bundle``, and those that belong to it.

    A name is a kind (trim, tables, head), the folder of such a drafter, or a small model. Where kinds are
    named, only these of those that belong to the target are chosen, and none with off. Raises NotFoundError
    for one that is not there, UsageError for one without files, BadFileError for a drafter that is damaged
    or belongs to another target.
    """
    target = Target.of(Manifest.load(bundle))
    there = {one.kind: one for one in artifacts(target, home, bundle)}
    chosen: dict[str, DrafterArtifact] = {}
    models: dict[str, None] = {}
    for name in names:
        if name == OFF:
            continue
        if name in KINDS:
            if name not in there:
                raise NotFoundError(f"{target.name} has no drafter {name}", hint=_known(there))
            chosen[name] = there[name]
        elif _is_drafter(name):
            kind = DrafterManifest.load(Path(name), verify=False).kind
            chosen[kind] = DrafterArtifact(kind, Path(name), shipped=False)
        elif models_in(parsed(name)):
            models[name] = None
        else:
            kind = kind_of(parsed(name)[0]).name
            raise UsageError(f"the drafter {kind} has no files", hint="every device has it without them")
    if OFF in names and chosen:
        raise UsageError("off leaves out the drafters of the model", hint="name those that are wanted alone")
    if len(models) > 1:
        raise UsageError("only one small model drafts on a device", hint="name one")
    found = chosen if chosen or OFF in names else there
    return ChosenDrafters(_checked(found.values(), target), next(iter(models), None))


def _checked(found: Iterable[DrafterArtifact], target: Target) -> tuple[DrafterArtifact, ...]:
    chosen = tuple(found)
    for one in chosen:
        one.checked(target)
    return chosen


def _is_drafter(name: str) -> bool:
    try:
        return (Path(name) / DRAFTER).is_file()
    except (OSError, ValueError):  # too long, or no path at all
        return False


def _known(there: dict[str, DrafterArtifact]) -> str:
    if there:
        return f"it has {', '.join(there)}"
    return "make one, or leave it out"
