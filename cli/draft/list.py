"""``edgedec draft list``: the drafters that belong to a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.services import services
from edgedec.core.errors import EdgeDecError
from edgedec.core.units import size
from edgedec.models.layout import is_bundle

if TYPE_CHECKING:
    from edgedec.core.drafter_manifest import Target
    from edgedec.core.manifest import Manifest
    from edgedec.drafters.artifacts import DrafterArtifact
    from edgedec.models import Store


@click.command(
    "list",
    short_help="Show the drafters that belong to models.",
    epilog=opt.examples(
        "edgedec draft list",
        "edgedec draft list -m smollm2-135m",
        "edgedec draft list --json | jq -r '.drafters[].path'",
    ),
)
@click.option(
    "-m", "--model", metavar="NAME", help="Of this installed model only (default: of every installed model)."
)
@opt.json_option
@click.pass_context
def command(ctx: click.Context, model: str | None, as_json: bool) -> None:
    """Show the drafters that belong to installed models: kind, bytes and how they were made.

    One that is damaged, or belongs to another model, has the reason instead; the model runs without it.
    """
    from edgedec.core.drafter_manifest import Target
    from edgedec.drafters.artifacts import artifacts

    store = services(ctx).store()
    targets = [Target.of(one) for one in _manifests(store, model)]
    found = [_facts(target, one) for target in targets for one in artifacts(target, store.home)]
    if as_json:
        screen.show_json({"home": str(store.home), "drafters": found})
        return
    for one in found:
        for line in _lines(one):
            click.echo(line)
    if not found:
        click.echo(f"No drafter belongs to {model or 'an installed model'}.")


def _manifests(store: Store, model: str | None) -> list[Manifest]:
    """Return the manifest of one model, or of all that are installed and can be opened."""
    from edgedec.core.manifest import Manifest

    if model is not None:
        return [Manifest.load(Path(model) if is_bundle(Path(model)) else store.path(model))]
    found = []
    for one in store.list():
        with suppress(EdgeDecError):  # `edgedec list` shows it
            found.append(Manifest.load(one.path))
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


def _lines(one: dict[str, Any]) -> Iterator[str]:
    if "error" in one:
        yield f"{one['model']}  {one['kind']}  not usable: {one['error']}"
        return
    shipped = ", shipped with EdgeDec" if one["shipped"] else ""
    yield f"{one['model']}  {one['kind']}  {size(one['bytes'])}{shipped}"
    for name, value in one["facts"].items():
        if value is not None:
            yield f"  {name}: {screen.printable(str(value))}"
