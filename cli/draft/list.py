"""``edgedec draft list``: the drafters that belong to a model."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.bundle.drafter_manifest import KINDS, TABLES, TRIM
from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.command import new_command
from edgedec.cli.services import services
from edgedec.core.errors import EdgeDecError
from edgedec.core.units import size
from edgedec.models.layout import is_bundle

if TYPE_CHECKING:
    from edgedec.bundle.drafter_manifest import Target
    from edgedec.bundle.manifest import Manifest
    from edgedec.drafters.artifacts import DrafterArtifact
    from edgedec.models import Store


@new_command(
    "list",
    "edgedec draft list",
    "edgedec draft list -m smollm2-135m",
    "edgedec draft list --json | jq -r '.drafters[].path'",
)
@click.option(
    "-m", "--model", metavar="NAME", help="Of this installed model only (default: of every installed model)."
)
@opt.json_option
@click.pass_context
def command(ctx: click.Context, model: str | None, as_json: bool) -> None:
    """Show the drafters that belong to installed models: their use, their bytes, and how good they are.

    One that is damaged, or belongs to another model, has the reason instead; the model runs without it.
    """
    from edgedec.bundle.drafter_manifest import Target
    from edgedec.drafters.artifacts import artifacts

    store = services(ctx).store()
    targets = [(Target.of(manifest), bundle) for manifest, bundle in _models(store, model)]
    found = [
        _facts(target, one) for target, bundle in targets for one in artifacts(target, store.home, bundle)
    ]
    if as_json:
        screen.show_json({"home": str(store.home), "drafters": found})
        return
    if found:
        _show(found)
    else:
        click.echo(f"No drafter belongs to {model or 'an installed model'}. `edgedec draft` makes some.")


def _models(store: Store, model: str | None) -> list[tuple[Manifest, Path]]:
    """Return manifest and bundle of one model, or of all that are installed and can be opened."""
    from edgedec.bundle.manifest import Manifest

    if model is not None:
        bundle = Path(model) if is_bundle(Path(model)) else store.path(model)
        return [(Manifest.load(bundle), bundle)]
    found = []
    for one in store.list():
        with suppress(EdgeDecError):  # `edgedec list` shows it
            found.append((Manifest.load(one.path), one.path))
    return found


def _facts(target: Target, found: DrafterArtifact) -> dict[str, Any]:
    place = {
        "model": target.name,
        "kind": found.kind,
        "path": str(found.path),
        "shipped": found.shipped,
    }
    try:
        manifest = found.checked(target)
    except EdgeDecError as error:
        return {**place, "error": str(error)}
    return {**place, "bytes": manifest.total_bytes, "facts": dict(manifest.facts)}


def _show(found: list[dict[str, Any]]) -> None:
    """Show the drafters by model: each with its use, its size, and how good it is as far as that is known."""
    for model, drafters in groupby(found, key=itemgetter("model")):
        click.echo(model)
        for one in drafters:
            if "error" in one:
                click.echo(f"  {one['kind']:<9}  not usable: {one['error']}")
                continue
            giver = "the model" if KINDS[one["kind"]].of_makers else "EdgeDec"
            shipped = f", comes with {giver}" if one["shipped"] else ", made here"
            click.echo(f"  {one['kind']:<9}  {KINDS[one['kind']].use}: {size(one['bytes'])}{shipped}")
            if words := _quality(one["kind"], one["facts"]):
                click.echo(f"  {'':<9}  {words}")
    click.echo("A model uses its drafters unasked, and replies the same. --json has all facts.")


def _quality(kind: str, facts: Mapping[str, Any]) -> str:
    """Return how good a drafter is, as it was measured on replies that it was not made of; "" if unknown."""
    if kind == TABLES:
        found = [value for name, value in facts.items() if name.startswith("tokens per round of")][:2]
        return f"{found[1]:.2f} tokens a pass where it was {found[0]:.2f} without" if len(found) == 2 else ""
    if kind == TRIM and "coverage" in facts:
        return f"{facts['ids']:,} tokens, which are {facts['coverage']:.1%} of what the model says"
    if "agreement" in facts:
        return f"it agrees with {facts['agreement']:.0%} of what the model writes; by {facts['made with']}"
    tokens = facts.get("held-out tokens a pass")
    return f"{tokens:.2f} tokens a pass" if tokens is not None else ""
