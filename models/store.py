"""Keep installed models: find them by name or path, and pull, export, list and remove them.

Importing this module and ``ensure`` of an installed model cost no network, export or download library.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from edgedec.bundle.manifest import Manifest, is_outdated
from edgedec.core.errors import BadFileError, EdgeDecError, NotFoundError, Remedy, UsageError
from edgedec.core.progress import Notice, Progress, counted, silent
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.digest import sha256_hex
from edgedec.disk.files import check_name, sha256_of
from edgedec.disk.home import check_home, default_home
from edgedec.disk.locks import exclusive
from edgedec.models.disk import bytes_under
from edgedec.models.hub_names import hub_name, may_name_hub
from edgedec.models.layout import Layout, is_bundle, slug
from edgedec.models.local_index import LocalIndex
from edgedec.models.names import (
    Job,
    adapter_of,
    exists,
    hub_file,
    job_for,
    job_for_file,
    job_for_hub,
    looks_like_path,
    not_installed,
    recipe_name,
    store_name,
    unknown,
)
from edgedec.models.recipes import HubFile

_MOST_LOOKED_AT = 1000
"""Entries of a folder that a hint looks at."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A bundle in the store; ``bytes`` is its size on the disk."""

    name: str
    path: Path
    bytes: int


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class Store:
    """The models below ``home``: EDGEDEC_HOME, else the platform's cache directory.

    A reference to a model is one of these:

    - the name of a recipe or of an installed model
    - the path of a .gguf file, a bundle or a Hugging Face directory
    - on the model hub: ``owner/repo``, ``owner/repo:QUANT``, ``hf:owner/repo/file.gguf``, an address

    A path that exists comes before the name ``owner/repo`` on the hub.

    ``notice`` receives lines for the user (licence, waiting); they go to standard error by default. With
    ``in_subprocess`` a missing model is prepared in another process, so its memory is free again afterwards.
    """

    def __init__(
        self, home: Path | None = None, *, notice: Notice | None = None, in_subprocess: bool = False
    ) -> None:
        """Raises StorageError for a home that is no directory, and cannot become one."""
        self._layout = Layout(Path(home) if home is not None else default_home())
        check_home(self.home)
        self._notice = notice or _to_stderr
        self._in_subprocess = in_subprocess

    @property
    def home(self) -> Path:
        """The store's directory; it may not exist yet."""
        return self._layout.home

    def list(self) -> list[Installed]:
        """Return the installed models, sorted by name."""
        return [Installed(path.name, path, bytes_under(path)) for path in self._layout.installed()]

    def path(self, name: str) -> Path:
        """Return the bundle of an installed model. Raises NotFoundError when it is not installed."""
        stored = self._stored(name)
        if stored and is_bundle(path := self._layout.model(stored)):
            return path
        if hub_file(name) or recipe_name(name):
            raise NotFoundError(f"{name} is not installed", hint="pull it", remedy=Remedy("pull", name))
        raise unknown(name, self._names())

    def ensure(self, reference: str, *, progress: Progress = silent) -> Path:
        """Return the bundle of a reference; pull or export it first if need be. Raises as ``pull`` does."""
        if not reference:
            raise unknown(reference, self._names())
        if (own := self._by_own_name(reference)) is not None:
            return own
        stored = None if self._is_path(reference) else self._stored(reference)
        if stored and is_bundle(path := self._layout.model(stored)):
            return path
        return self.pull(reference, progress=progress)

    def pull(
        self,
        reference: str,
        *,
        force: bool = False,
        keep_source: bool = False,
        source: Path | None = None,
        progress: Progress = silent,
    ) -> Path:
        """Fetch, verify and export a model; return its bundle.

        An installed model is returned as it is, unless ``force``. It stays usable until its replacement is
        complete. ``source`` is a local GGUF that replaces the download; a recipe still checks its hash.
        ``keep_source`` keeps the downloaded GGUF in the store. The next pull resumes an interrupted one.

        Raises UsageError for a path with a ``source``, NotFoundError, DownloadError, BadFileError,
        UnsupportedError, StorageError.
        """
        path = self._path_of(reference)
        if path and source:
            raise UsageError(f"{path} is a file already, and {source} another", hint="give one of them")
        if ready := self._ready(reference, path, force):
            return ready
        hub = None if path else hub_file(reference)
        job = None if path or hub else job_for(reference, self._names())
        if self._in_subprocess:
            from edgedec.models.prepare_process import Order, prepare_in_subprocess

            given = None if source is None else str(source)
            order = Order(str(self.home.absolute()), reference, force, keep_source, given)
            return prepare_in_subprocess(order, self._notice, progress)
        if path:
            return self._from_path(path, progress, force)
        if hub:
            job = self._hub_job(reference, hub, source)
        assert job is not None
        return self._install(job, force=force, keep_source=keep_source, source=source, progress=progress)

    def remove(self, *names: str, removed: Callable[[str], None] = lambda name: None) -> None:
        """Delete installed models with their partial downloads and kept sources; ``removed`` hears of each.

        Raises NotFoundError, and deletes nothing, if one of them is not installed.
        """
        for name, stored in [(name, self._removable(name)) for name in names]:
            with self._lock(stored):
                self._layout.recover(stored)
                for place in self._layout.places(stored):
                    self._layout.discard(place)
            removed(name)

    def _removable(self, name: str) -> str:
        """Return the name in the store of a model of which anything is there. Raises NotFoundError."""
        with suppress(NotFoundError):
            stored = self._stored(name)
            if stored and any(place.is_dir() for place in self._layout.places(stored)):
                return stored
        raise not_installed(name, self._names())

    def _names(self) -> Iterator[str]:
        return (path.name for path in self._layout.installed())

    def _tidy(self, name: str) -> None:
        """Remove the downloads of a pull that was killed after its model was in place."""
        if self._layout.downloads(name).is_dir():
            with self._lock(name):
                self._layout.discard(self._layout.downloads(name))

    def _is_path(self, reference: str) -> bool:
        given = bool(reference) and not self._known(reference) and exists(reference)
        return looks_like_path(reference) or given

    def _by_own_name(self, reference: str) -> Path | None:
        """Return the bundle of an installed model by its very name, without reading the catalogue.

        A name that stands for another one there has capitals or a colon, and no folder is called so.
        """
        if reference != slug(reference.lower()) or looks_like_path(reference):
            return None
        path = self._layout.model(reference)
        return path if is_bundle(path) else None

    def _known(self, reference: str) -> bool:
        return recipe_name(reference) is not None or is_bundle(self._layout.model(slug(reference)))

    def _stored(self, reference: str) -> str | None:
        """Return the name in the store for a reference that is no path; None for a hub name without a file
        that is not installed. Raises NotFoundError and UsageError.
        """
        if self._by_own_name(reference):
            return reference
        file = hub_file(reference)
        if file is None:
            return store_name(reference)
        if file.file:
            return hub_name(file)
        from edgedec.models.hub_origin import installed_from

        return installed_from(self._layout.installed(), file)

    def _hub_job(self, reference: str, file: HubFile, source: Path | None) -> Job:
        if source is not None and not file.file:
            file = replace(file, file=source.name)
        from edgedec.models.sources.hub_errors import NoRepositoryError, UnreachableError

        try:
            return job_for_hub(file, local=source is not None)
        except (NoRepositoryError, UnreachableError) as error:
            if may_name_hub(reference):
                here = f"there is no file or folder {reference}"
                raise error.reworded(f"{here}, and {error.message}") from error
            raise

    def _path_of(self, reference: str) -> Path | None:
        """Return a reference as a path; None for a name. Raises NotFoundError or BadFileError."""
        if not self._is_path(reference):
            return None
        path = Path(reference).expanduser()
        if not path.exists():
            raise NotFoundError(f"no such file or directory: {path}")
        check_name(path)
        if not path.is_file() and not path.is_dir():  # to open a pipe would wait for its other end
            raise BadFileError(f"{path} is a pipe or a device, not a file", hint="save it to a file first")
        if path.is_dir():
            from edgedec.export.no_model import refuse_adapter_folder

            refuse_adapter_folder(path)
        if path.is_dir() and not is_bundle(path) and not (path / "config.json").is_file():
            raise BadFileError(
                f"{path} has neither manifest.json nor config.json",
                hint=_model_inside(path) or "name a bundle, a GGUF file or a Hugging Face directory",
            )
        return path

    def _ready(self, reference: str, path: Path | None, force: bool) -> Path | None:
        """Return the bundle of a reference that needs no work; None for others."""
        if path and is_bundle(path):
            return path
        name = LocalIndex(self._layout.local_index).name_of(path) if path else self._stored(reference)
        if force or name is None or not _is_installed(self._layout.model(name)):
            return None
        if not path:
            self._tidy(name)
        return self._layout.model(name)

    def _from_path(self, path: Path, progress: Progress, force: bool) -> Path:
        files = _files(path)
        try:
            hashes = _digest(files, progress)
        except OSError as error:
            raise BadFileError(f"cannot read {path}: {error.strerror}") from error
        table = "".join(f"{file.name} {sha256}\n" for file, sha256 in zip(files, hashes, strict=True))
        sha256 = hashes[0] if files == [path] else sha256_hex(table.encode())
        if path.is_dir():
            bundle = self._from_directory(path, sha256, progress, force)
        else:
            job = job_for_file(sha256, files[0])
            bundle = self._install(job, force=force, source=files[0], progress=progress, verified=True)
        LocalIndex(self._layout.local_index).remember(path, bundle.name)
        return bundle

    def _from_directory(self, path: Path, sha256: str, progress: Progress, force: bool) -> Path:
        """Return the bundle of a Hugging Face model, named after its directory and ``sha256``."""
        from edgedec.export import QUANTS, export_huggingface

        name = f"{slug(path.resolve().name)}-{sha256[:12]}"
        target = self._layout.model(name)
        with self._lock(name):
            self._layout.recover(name)
            if force or not _is_installed(target):
                manifest = export_huggingface(path, target, name=name, progress=progress)
                if "quant" in manifest.source and manifest.embedding is None:
                    self._notice(f"{path} got {QUANTS[0]} weights; an export of its own can choose others")
        return target

    def _install(
        self,
        job: Job,
        *,
        force: bool,
        progress: Progress,
        keep_source: bool = False,
        source: Path | None = None,
        verified: bool = False,
    ) -> Path:
        from edgedec.models.pull import Pull

        with self._lock(job.name):
            self._layout.recover(job.name)
            target = self._layout.model(job.name)
            work = Pull(self._layout, job, self._notice, progress)
            if force or not _is_installed(target):
                work.run(source=source, keep_source=keep_source, verified=verified)
            work.tidy()
            return target

    @contextmanager
    def _lock(self, name: str) -> Iterator[None]:
        def waiting() -> None:
            self._notice(f"another process is working on {name}: waiting for it")

        with exclusive(self._layout.lock(name), waiting):
            yield


def _is_installed(bundle: Path) -> bool:
    """Return whether ``bundle`` exists, in the version that this EdgeDec reads, and of its adapter."""
    return is_bundle(bundle) and not is_outdated(bundle) and not _is_of_another_adapter(bundle)


def _is_of_another_adapter(bundle: Path) -> bool:
    adapter = adapter_of(bundle.name)
    with suppress(EdgeDecError):  # a damaged bundle is not replaced unasked
        return adapter is not None and Manifest.load(bundle).source.get("adapter") != adapter
    return False


def _model_inside(folder: Path) -> str:
    """Return a hint that names the first model in a folder; "" where it has none."""
    from edgedec.models.hub_choice import is_model_file

    for one in sorted(itertools.islice(folder.iterdir(), _MOST_LOOKED_AT)):
        if is_model_file(one.name) or is_bundle(one) or (one / "config.json").is_file():
            return f"there is {one}: name that"
    return ""


def _files(path: Path) -> list[Path]:
    """Return the files of a model: a GGUF file or its parts, or those of a directory that an export reads."""
    if path.is_file():
        from edgedec.export.gguf_parts import gguf_files

        parts = gguf_files(path)
        return parts if all(part.is_file() for part in parts) else [path]  # opening it names what lacks
    from edgedec.export import huggingface_files

    return huggingface_files(path)


def _digest(paths: Sequence[Path], progress: Progress) -> list[str]:
    """Return the SHA-256 of each file."""
    step = counted(progress, "verify", sum(path.stat().st_size for path in paths))
    return [sha256_of(path, step) for path in paths]
