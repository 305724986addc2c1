"""``edgedec export --for``: a model and its drafters in one folder for a device, or for browsers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click

from edgedec.bundle.web_folder import WEB
from edgedec.cli import progress, screen
from edgedec.cli.services import services
from edgedec.core.errors import NotFoundError
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import size
from edgedec.disk.files import storage_errors, temporary_beside

if TYPE_CHECKING:
    from edgedec.bundle.device_folder import DeviceFolder
    from edgedec.models import Store


@dataclass(frozen=True, slots=True)
class DeviceFolderOptions:
    """The options of a folder: ``drafters`` are names as ``export.device.named_model`` takes them.

    ``model`` is the bundle of the small model among them.
    """

    device: str
    drafters: Sequence[str]
    as_json: bool
    model: Path | None

    @classmethod
    def read(cls, ctx: click.Context, device: str, drafters: Sequence[str], as_json: bool) -> Self:
        """Find the small model. Raises UsageError or NotFoundError for a drafter that cannot be had."""
        from edgedec.export.device import named_model

        name = named_model(drafters)
        model = _small_model(services(ctx).store(), name) if name else None
        return cls(device, drafters, as_json, model)

    def check_before(self, ctx: click.Context) -> None:
        """Raise NotFoundError for what is certainly missing, before a long export of the target."""
        from edgedec.export.device import check_kinds

        check_kinds(self.drafters, services(ctx).store().home)


def write_folder(ctx: click.Context, options: DeviceFolderOptions, source: Path, out: Path) -> None:
    """Write the folder ``out`` of a bundle or installed model, and show what is in it."""
    from edgedec.export.device import DeviceOrder, choose_drafters, write_device_folder

    store = services(ctx).store()
    bundle = source if source.exists() else store.path(str(source))
    if options.device == WEB:
        _write_page(options, bundle, out, store.home)
        return
    chosen = choose_drafters(options.drafters, bundle, store.home)
    order = DeviceOrder(options.device, bundle, chosen, options.model, store.home)
    with progress.reporter() as report:
        made = write_device_folder(order, out, report)
    if options.as_json:
        screen.show_json(_document(made, out))
    else:
        _show(made, out)


def _write_page(options: DeviceFolderOptions, bundle: Path, out: Path, home: Path) -> None:
    """Write a folder for browsers, and show what is in it."""
    from edgedec.export.device import DeviceOrder, choose_drafters
    from edgedec.export.web import write_web_folder

    chosen = choose_drafters(options.drafters, bundle, home)
    with progress.reporter() as report:
        made = write_web_folder(DeviceOrder(WEB, bundle, chosen, options.model, home), out, report)
    drafters = [*(one.kind for one in chosen), *([options.model.name] if options.model else [])]
    if options.as_json:
        files = {name: entry.bytes for name, entry in made.files.items()}
        facts = {"name": made.name, "device": WEB, "path": str(out), "bytes": made.total_bytes}
        screen.show_json({**facts, "drafters": drafters, "files": files})
        return
    drafted = f", with {', '.join(drafters)}" if drafters else ""
    click.echo(f"{made.name}: {size(made.total_bytes)} in {out}{drafted}. `edgedec web {out}` serves it.")


@contextmanager
def between(out: Path) -> Iterator[Path]:
    """Yield the name of a bundle, in a folder beside ``out`` that is removed at the end."""
    with storage_errors(str(out)):
        out.parent.mkdir(parents=True, exist_ok=True)
        with temporary_beside(out) as folder:
            yield folder / out.name


def _small_model(store: Store, name: str) -> Path:
    """Return the bundle of a small model. Raises NotFoundError for one that is not installed."""
    if Path(name).exists():
        with progress.reporter() as report:
            return store.ensure(name, progress=report)
    try:
        return store.path(name)
    except NotFoundError as error:
        if error.remedies and error.remedies[0].name == "pull":
            raise
        hint = "there are head, trim, tables, and installed models by name or path"
        raise NotFoundError(f"there is no drafter {name[:80]}", hint=hint, near=error.near) from error


def _document(made: DeviceFolder, out: Path) -> dict[str, object]:
    return {
        "name": made.target.name,
        "device": made.device,
        "path": str(out),
        "bytes": made.total_bytes,
        "drafters": [asdict(one) for one in made.drafters],
        "files": {name: entry.bytes for name, entry in made.files.items()},
    }


def _show(made: DeviceFolder, out: Path) -> None:
    """Show the parts of the folder with their files and bytes, and the next step."""
    parts = [(made.target.name, _sizes(made, ""))]
    parts += [(f"{one.kind} {one.path}", _sizes(made, one.path)) for one in made.drafters]
    parts += [(f"vocabularies {one.maps}", _sizes(made, one.maps)) for one in made.drafters if one.maps]
    width = max(len(label) for label, _ in parts)
    for label, sizes in parts:
        click.echo(f"{label:<{width}}  {size(sum(sizes)):>8} in {len(sizes)} files")
    click.echo(f"{size(made.total_bytes)} in {out}. `edgedec push {out}` sends it to a phone.")


def _sizes(made: DeviceFolder, below: str) -> list[int]:
    """Return the sizes of the files below a folder of it; "" is the target, whose files lie in no folder."""
    if not below:
        return [entry.bytes for name, entry in made.files.items() if "/" not in name]
    return [entry.bytes for name, entry in made.files.items() if name.startswith(f"{below}/")]
