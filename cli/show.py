"""``edgedec show``: everything about one model, installed or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.command import new_command
from edgedec.cli.list import about_size, columns, rounded
from edgedec.cli.services import services
from edgedec.core.errors import NotFoundError
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bundle.manifest import Manifest
    from edgedec.bundle.preset import Preset
    from edgedec.core.model_spec import ModelSpec
    from edgedec.models import Store
    from edgedec.models.catalogue import Entry

_TESTED = {
    "real": "this model, with its own weights",
    "twin": "a small copy with random weights, not this model itself: tell us what goes wrong",
}


@dataclass(frozen=True, slots=True)
class Known:
    """A model that the catalogue, the store or both know."""

    name: str
    entry: Entry | None
    bundle: Path | None
    manifest: Manifest | None

    @property
    def spec(self) -> ModelSpec:
        """The sizes, of the installed bundle before those of the catalogue."""
        if self.manifest:
            return self.manifest.spec
        assert self.entry is not None
        return self.entry.spec

    @property
    def preset(self) -> Preset:
        """The preset of the installed bundle, else that of the catalogue."""
        if self.manifest:
            return self.manifest.preset
        assert self.entry is not None
        return self.entry.recipe.preset

    @property
    def memory(self) -> int | None:
        """Bytes that a conversation takes, estimated; None where another runtime keeps the memory."""
        from edgedec.bundle.manifest import WEIGHTS
        from edgedec.models.catalogue import estimated_memory

        if self.manifest is None:
            assert self.entry is not None
            return self.entry.memory()
        weights = self.manifest.files.get(WEIGHTS)
        if self.manifest.kind != "edgedec" or weights is None:
            return None
        return estimated_memory(self.spec, weights.bytes - self.spec.table_bytes)


@new_command(
    "show",
    "edgedec show qwen3-1.7b",
    "edgedec show smollm2-135m --json | jq .memory_bytes",
    "edgedec show ./phone",
)
@click.argument("name", metavar="NAME")
@opt.json_option
@click.pass_context
def command(ctx: click.Context, name: str, as_json: bool) -> None:
    """Say everything about a model: size, memory, licence, sampling values, source, how it is tested.

    NAME is an installed model, one that `edgedec list --all` shows, or the folder of a bundle.
    """
    known = find(services(ctx).store(), name)
    if as_json:
        screen.show_json(_document(known))
        return
    click.echo(known.entry.recipe.title if known.entry else known.name)
    lines = _lines(known)
    indent = max(len(word) for word, _ in lines) + 4
    for word, text in lines:
        click.echo(screen.hanging(f"  {word}".ljust(indent), screen.printable(text), columns()))


def find(store: Store, name: str) -> Known:
    """Return a model by name, or by the path of its bundle.

    Raises NotFoundError, with names that are near, and BadFileError or UnsupportedError for its manifest.
    """
    from edgedec.bundle.manifest import Manifest
    from edgedec.models.catalogue import CATALOGUE
    from edgedec.models.names import looks_like_path, recipe_name

    if looks_like_path(name):
        bundle = Path(name).expanduser().absolute()
        manifest = Manifest.load(bundle)
        return Known(manifest.name, CATALOGUE.get(manifest.name), bundle, manifest)
    entry = CATALOGUE.get(recipe_name(name) or "")
    try:
        bundle = store.path(name)
    except NotFoundError:
        if entry is None:
            raise
        return Known(entry.name, entry, None, None)
    return Known(bundle.name, CATALOGUE.get(bundle.name), bundle, Manifest.load(bundle))


def _lines(known: Known) -> list[tuple[str, str]]:
    """Return the facts as (word, text)."""
    from edgedec.models.catalogue import stated_context
    from edgedec.models.pairs import known_drafters

    entry, spec = known.entry, known.spec
    lines = [("good for", entry.good_for)] if entry else []
    lines.append(("installed", _installed(known)))
    if entry:
        lines.append(("download", about_size(entry)))
    if memory := known.memory:
        lines.append(("memory", f"~{rounded(memory)} with {stated_context(spec)} tokens of context"))
    if entry:
        lines.append(("parameters", f"{entry.parameters / 1e6:,.0f} million"))
    lines += [("context", f"at most {spec.context_length} tokens"), ("licence", _licence(known))]
    if entry and entry.recipe.licence.notice:
        lines.append(("", entry.recipe.licence.notice))
    thinks = "; may think first" if entry and entry.thinks else ""
    lines.append(("replies", known.preset.summary() + thinks))
    if entry and entry.drafter:
        use = "once it is installed" if known_drafters(entry.name) else f"with --draft auto,{entry.drafter}"
        lines.append(("drafter", f"{entry.drafter}, {use}"))
    if entry and entry.published:
        found = entry.published
        lines.append(
            ("published", f"{found.repo}, a drafter of ~{size(found.bytes)} that a pull fetches too")
        )
    if known.manifest and (formats := known.manifest.source.get("formats")):
        lines.append(("formats", f"chosen for {known.manifest.source.get('quant')}: {formats}"))
    if known.manifest and (trained := _trained(known.manifest.source)):
        lines.append(("trained", trained))
    if known.bundle and (carried := _carried(known.bundle)):
        lines.append(("carries", carried))
    lines += [("source", _source(known)), ("hash", _hash(known)), ("architecture", _architecture(spec))]
    if known.bundle:
        from edgedec.text.table_encoder import tokenizer_form

        lines.append(("tokenizer", tokenizer_form(known.bundle)))
    if entry:
        lines.append(("tested", _TESTED[entry.tested]))
    return lines


def _installed(known: Known) -> str:
    if known.bundle is None:
        return f"no; `edgedec pull {known.name}` fetches it"
    files = (file for file in known.bundle.rglob("*") if file.is_file())
    return f"{known.bundle}, {size(sum(file.stat().st_size for file in files))}"


def _carried(bundle: Path) -> str:
    """Name the drafters in a device's folder; "" for another bundle. Raises as ``DeviceFolder.load``."""
    from edgedec.bundle.device_folder import DEVICE, MODEL, DeviceFolder

    if not (bundle / DEVICE).is_file():
        return ""
    found = DeviceFolder.load(bundle)
    drafters = [Path(one.path).name if one.kind == MODEL else one.kind for one in found.drafters]
    return f"for {found.device}: {', '.join(drafters) or 'no drafters'}"


def _trained(source: Mapping[str, object]) -> str:
    """Say which model's drafts an adapter was trained for, and what that gained; "" for another model."""
    if "trained for" not in source:
        return ""
    gained = (f"{source.get(f'tokens a pass {when}', '?')} {when}" for when in ("before", "after"))
    return f"to draft for {source['trained for']}; tokens a pass: {', '.join(gained)}"


def _licence(known: Known) -> str:
    if known.entry:
        licence = known.entry.recipe.licence
        return f"{licence.name}, {licence.url}"
    source = known.manifest.source if known.manifest else {}
    return ", ".join(str(source[key]) for key in ("licence", "licence_url") if source.get(key)) or "unknown"


def _source(known: Known) -> str:
    if known.manifest:
        source = known.manifest.source
        text = " ".join(filter(None, [str(source.get("kind", "")), _origin(source)])) or "unknown"
        revision = str(source.get("revision", ""))[:12]
        return f"{text}, {source['repo_file']} of revision {revision}" if source.get("repo_file") else text
    assert known.entry is not None
    recipe = known.entry.recipe
    places = ["the package index"] if recipe.wheels else []
    return ", then ".join([*places, *([str(recipe.hub)] if recipe.hub else [])])


def _origin(source: Mapping[str, object]) -> str:
    """Return where a model came from; of several packages the first one and their number."""
    first, *others = str(source.get("origin", "")).split() or [""]
    if others and "==" in first:
        return f"{first} and {len(others)} more packages"
    return " ".join([first, *others])


def _hash(known: Known) -> str:
    pinned = known.manifest.source.get("sha256") if known.manifest else None
    if pinned is None and known.entry:
        pinned = known.entry.recipe.sha256
    return f"SHA-256 {pinned}" if pinned else "SHA-256 as the hub states it, kept once it is installed"


def _architecture(spec: ModelSpec) -> str:
    windows = f", {spec.n_window_layers} with windows of {spec.window} tokens" if spec.window else ""
    return f"{spec.architecture}, {spec.n_layers} layers{windows}, vocabulary of {spec.vocab_size}"


def _document(known: Known) -> dict[str, object]:
    """Return the facts for machines; those that only the catalogue has are absent for other models."""
    from edgedec.models.catalogue import stated_context

    entry = known.entry
    found: dict[str, object] = {
        "name": known.name,
        "path": str(known.bundle) if known.bundle else None,
        "spec": asdict(known.spec),
        "preset": known.preset.as_json(),
        "memory_bytes": known.memory,
        "memory_context": stated_context(known.spec),
        "source": dict(known.manifest.source) if known.manifest else None,
    }
    if entry:
        recipe = entry.recipe
        found |= {
            "title": recipe.title,
            "bytes": recipe.bytes,
            "bytes_exact": entry.exact,
            "sha256": recipe.sha256,
            "hub": str(recipe.hub) if recipe.hub else None,
            "licence": asdict(recipe.licence),
            "parameters": entry.parameters,
            "good_for": entry.good_for,
            "drafter": entry.drafter,
            "published": asdict(entry.published) if entry.published else None,
            "chats": entry.chats,
            "thinks": entry.thinks,
            "tested": entry.tested,
        }
    return found
