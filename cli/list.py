"""``edgedec list``: models that are installed, and models that can be pulled by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.seams import seams
from edgedec.core.errors import EdgeDecError
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.core.manifest import Scalar
    from edgedec.models import Installed, Recipe


@click.command(
    "list",
    short_help="Show the models that are installed, and those that can be pulled.",
    epilog=opt.examples("edgedec list", "edgedec list --json | jq -r '.installed[].name'"),
)
@opt.json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Show the models that are installed, and those that can be pulled by name."""
    from edgedec.models import RECIPES

    store = seams(ctx).store()
    installed = store.list()
    names = {model.name for model in installed}
    available = [recipe for recipe in RECIPES.values() if recipe.name not in names]
    if as_json:
        screen.show_json(_document(str(store.home), installed, available))
        return
    click.echo(f"Installed in {store.home}:" if installed else "No model is installed yet.")
    _columns([(model.name, size(model.bytes), _installed_about(model, RECIPES)) for model in installed])
    if available:
        click.echo("Can be pulled:")
        _columns([(recipe.name, size(recipe.bytes), _about(recipe)) for recipe in available])


def _about(recipe: Recipe | None) -> str:
    return f"{recipe.title}; licence: {recipe.licence.name}" if recipe else ""


def _installed_about(model: Installed, recipes: Mapping[str, Recipe]) -> str:
    """Return source and quantisation of a model that has no recipe."""
    if model.name in recipes:
        return _about(recipes[model.name])
    source = _source(model)
    made_of = f"from {source['file']}" if "file" in source else ""
    calibrated = "calibrated" if "calibration tokens" in source else ""
    text = "; ".join(filter(None, [made_of, str(source.get("quant", "")), calibrated]))
    return "".join(char for char in text if char.isprintable())[:200]


def _source(model: Installed) -> Mapping[str, Scalar]:
    """Return the source in the manifest; empty for a broken one, which opening the model reports."""
    from edgedec.core.manifest import Manifest

    try:
        return Manifest.load(model.path).source
    except EdgeDecError:
        return {}


def _document(home: str, installed: Sequence[Installed], available: Sequence[Recipe]) -> dict[str, object]:
    return {
        "home": home,
        "installed": [
            {"name": one.name, "path": str(one.path), "bytes": one.bytes, "quant": _source(one).get("quant")}
            for one in installed
        ],
        "available": [
            {"name": one.name, "title": one.title, "bytes": one.bytes, "licence": one.licence.name}
            for one in available
        ],
    }


def _columns(rows: Sequence[tuple[str, str, str]]) -> None:
    width = max((len(name) for name, _, _ in rows), default=0)
    for name, amount, note in rows:
        click.echo(f"  {name:<{width}}  {amount:>9}  {note}".rstrip())
