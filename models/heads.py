"""Fetch a drafting head from the model hub or the disk, to be installed for a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from edgedec.bundle.drafter_manifest import DrafterManifest
from edgedec.core.errors import BadFileError, NotFoundError, UnsupportedError
from edgedec.core.progress import Notice, Progress
from edgedec.core.units import size
from edgedec.disk.files import sha256_of, storage_errors
from edgedec.disk.listed_files import Scalar
from edgedec.disk.locks import exclusive
from edgedec.models.disk import bytes_under, check_space
from edgedec.models.hub_names import hub_name, may_name_hub, names_hub, parse_hub
from edgedec.models.layout import Layout
from edgedec.models.names import exists
from edgedec.models.recipes import HubFile

_ENDING = "--head"
"""Ending of the name of a head's downloads, which the model of the same repository does not have."""


Install = Callable[[Path, Mapping[str, Scalar]], DrafterManifest]
"""Installs a head for a model by its folder or GGUF file, with facts for its manifest."""


def import_head(
    reference: str, home: Path, install: Install, *, notice: Notice, progress: Progress
) -> DrafterManifest:
    """Fetch the head ``reference``, ``install`` it, and return its manifest.

    ``reference`` is the path of a folder or a GGUF file, or ``owner/repo`` on the model hub. The next call
    goes on with an interrupted download. Raises the errors of ``Store.pull`` and of ``install``.
    """
    if exists(reference) or not (names_hub(reference) or may_name_hub(reference)):
        path = Path(reference).expanduser()
        if not path.exists():
            raise NotFoundError(
                f"no such file or directory: {path}", hint="name a folder, a GGUF file, or owner/repo"
            )
        return install(path, {"made of": path.resolve().name})
    file, layout = parse_hub(reference), Layout(home)
    name = hub_name(file) + _ENDING

    def waiting() -> None:
        notice(f"another process is working on {file.repo}: waiting for it")

    with exclusive(layout.lock(name), waiting):
        work = layout.downloads(name)
        path, facts = _fetched(file, layout, work, notice, progress)
        try:
            made = install(path, facts)
        except (BadFileError, UnsupportedError):
            layout.discard(work)  # another attempt would find the same
            raise
        layout.discard(work)
        return made


def _fetched(
    file: HubFile, layout: Layout, work: Path, notice: Notice, progress: Progress
) -> tuple[Path, Mapping[str, Scalar]]:
    """Download a head to ``work``; return its folder or GGUF file, and what the hub states about it."""
    from edgedec.models.sources.hub import fetch_files
    from edgedec.models.sources.hub_listing import locate_head

    located = locate_head(file)
    check_space(layout.home, located.bytes, present=bytes_under(work))
    facts: dict[str, Scalar] = {"made of": str(located.file)}
    if located.file.revision:
        facts["revision"] = located.file.revision
    if located.licence:
        facts["licence"] = located.licence.name
        licence = f"; licence: {located.licence.name}, {located.licence.url}"
    notice(f"{file.repo}, {size(located.bytes)}{licence if located.licence else ''}")
    with storage_errors(str(work)):
        folder = fetch_files(located, work, progress, _check_config)
        weights = folder / located.files[-1].path
        facts["sha256"] = located.files[-1].sha256 or sha256_of(weights)
    return (weights if located.file.file else folder), facts


def _check_config(folder: Path) -> None:
    """Raise UnsupportedError, before weights come, for a folder that is no head and no assistant."""
    from edgedec.export.drafters.kinds import drafter_in

    if drafter_in(folder) is None:
        raise UnsupportedError("the repository holds no EAGLE-3 head", hint="it may hold a model")
