"""Draft models that need no name: known to draft for another model, and quick beside it."""

from __future__ import annotations

from pathlib import Path

from edgedec.bundle.device_folder import carried_model
from edgedec.bundle.drafter_manifest import ASSISTANT, HEAD, Target
from edgedec.bundle.manifest import DRAFTING, Manifest
from edgedec.core.errors import EdgeDecError
from edgedec.drafters.artifacts import artifacts
from edgedec.models.catalogue import CATALOGUE, Entry, PublishedDrafter
from edgedec.models.recipes import Recipe
from edgedec.models.store import Store

_LEAST_RATIO = 6
"""Bytes of a target over those of a draft model that can pay: a draft takes several of its passes."""


def known_drafters(name: str) -> tuple[Entry, ...]:
    """Return the draft models that are known to suit a model of the catalogue, the best one first.

    One that an adapter makes comes before the model that it is made of. All files are known to the byte, so
    the pair was tried, and the drafter is small beside the target.
    """
    if not CATALOGUE.may_have_drafter(name):
        return ()
    entry = CATALOGUE.get(name)
    found, drafter = list[Entry](), CATALOGUE.get((entry and entry.drafter) or "")
    while entry and drafter:
        small = _LEAST_RATIO * drafter.recipe.bytes <= entry.recipe.bytes
        if entry.exact and drafter.exact and small:
            found.append(drafter)
        drafter = CATALOGUE.get(drafter.base or "")
    return tuple(found)


def installed_drafter(bundle: Path, store: Store) -> Path | None:
    """Return the bundle of the draft model that is known to suit the model at ``bundle``.

    One that ``bundle`` carries itself comes first. None where none is installed, and for another model of
    either name. A damaged one is returned: loading it says why it cannot draft.
    """
    if (carried := carried_model(bundle)) is not None:
        return carried
    if all(one.path == bundle for one in store.list()):
        return None  # without reading the catalogue
    return next(filter(None, (_bundle_of(drafter, store) for drafter in _drafters_of(bundle))), None)


def missing_drafter(bundle: Path, store: Store) -> Entry | None:
    """Return the best draft model that is known to suit the model at ``bundle``, if it is not there.

    An installed one that an earlier adapter made is another model.
    """
    best = next(iter(_drafters_of(bundle)), None)
    carries = carried_model(bundle) is not None
    return None if carries or best is None or _bundle_of(best, store) else best


def missing_published(bundle: Path, home: Path) -> PublishedDrafter | None:
    """Return the drafter that others trained for the model at ``bundle``, if one is known and not there."""
    manifest = _manifest(bundle)
    entry = CATALOGUE.get(manifest.name) if manifest else None
    if manifest is None or entry is None or entry.published is None or DRAFTING not in manifest.files:
        return None
    there = {one.kind for one in artifacts(Target.of(manifest), home, bundle)}
    return None if there & {HEAD, ASSISTANT} else entry.published


def _drafters_of(bundle: Path) -> tuple[Entry, ...]:
    manifest = _manifest(bundle)
    drafters = known_drafters(manifest.name) if manifest else ()
    return drafters if manifest and drafters and _is_of(manifest, CATALOGUE[manifest.name].recipe) else ()


def _manifest(bundle: Path) -> Manifest | None:
    try:
        return Manifest.load(bundle)
    except EdgeDecError:
        return None


def _bundle_of(entry: Entry, store: Store) -> Path | None:
    """Return the installed bundle of a draft model; a damaged one, too."""
    if all(one.name != entry.name for one in store.list()):
        return None
    path = store.path(entry.name)
    found = _manifest(path)
    return path if found is None or _is_of(found, entry.recipe) else None


def _is_of(manifest: Manifest, recipe: Recipe) -> bool:
    if recipe.adapter:
        return manifest.source.get("adapter") == recipe.adapter
    return manifest.source.get("sha256") == recipe.sha256
