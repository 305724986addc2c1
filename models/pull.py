"""Pull one model: try its sources in order, export the file, and remove the downloads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from edgedec.core.errors import BadFileError, DownloadError, NotFoundError, UnsupportedError
from edgedec.core.files import storage_errors
from edgedec.core.manifest import GGUF
from edgedec.core.progress import Notice, Progress
from edgedec.core.units import size
from edgedec.models.disk import bytes_under, check_space
from edgedec.models.layout import Layout
from edgedec.models.names import Job
from edgedec.models.sources import DownloadSource
from edgedec.models.sources.hub import ModelHub
from edgedec.models.sources.local import LocalFile
from edgedec.models.sources.package_index import PackageIndex
from edgedec.models.sources.verify import Expected, check


class Pull:
    """Install one job. The caller holds the lock of its name."""

    def __init__(self, layout: Layout, job: Job, notice: Notice, progress: Progress) -> None:
        self._layout = layout
        self._job = job
        self._notice = notice
        self._progress = progress
        self._work = layout.downloads(job.name)

    def run(self, *, source: Path | None, keep_source: bool, verified: bool) -> None:
        """Fetch and export. With ``verified``, ``source`` is not hashed again."""
        gguf, origin = self._fetch(self._sources(source, verified))
        try:
            self._export(gguf, origin)
        except (BadFileError, UnsupportedError):
            if (
                self._job.recipe is None
            ):  # nobody vouched for this file: keeping it would help no second attempt
                self.tidy()
            raise
        if keep_source and gguf.is_relative_to(self._work):
            kept = self._layout.kept(self._job.name)
            with storage_errors(str(kept)):
                kept.mkdir(parents=True, exist_ok=True)
                os.replace(gguf, kept / gguf.name)

    def tidy(self) -> None:
        """Remove the downloads of an installed model."""
        shutil.rmtree(self._work, ignore_errors=True)

    def _sources(self, given: Path | None, verified: bool) -> Sequence[DownloadSource]:
        job = self._job
        if given is not None:
            expected = Expected(job.expected.file_name, job.expected.bytes) if verified else job.expected
            return [LocalFile(given, expected)]
        kept = self._layout.kept(job.name) / Path(job.expected.file_name).name
        sources: list[DownloadSource] = [LocalFile(kept, job.expected)] if kept.is_file() else []
        if job.recipe and job.recipe.wheels:
            sources.append(PackageIndex(job.recipe.wheels, job.expected, self._notice))
        if job.hub:
            sources.append(ModelHub(job.hub, job.expected, self._reserve))
        return sources

    def _fetch(self, sources: Sequence[DownloadSource]) -> tuple[Path, DownloadSource]:
        """Return the file of the first source that delivers, and the source.

        A file that is not the expected one ends the search with its error.
        """
        if done := self._finished_download(sources):
            return done
        local = isinstance(sources[0], LocalFile)
        if self._job.expected.bytes is not None:
            self._reserve(self._job.expected.bytes, download=not local)
        if not local:
            self._announce()
        with storage_errors(str(self._work)):
            self._work.mkdir(parents=True, exist_ok=True)
        failures: list[DownloadError | NotFoundError] = []
        for source in sources:
            try:
                return source.fetch(self._work, self._progress), source
            except (DownloadError, NotFoundError) as error:
                failures.append(error)
                if source is not sources[-1]:
                    self._notice(f"{source.kind}: {error.message}; trying the next source")
        if len(failures) == 1:
            raise failures[0]
        reasons = "; ".join(
            f"{source.kind}: {error.message}" for source, error in zip(sources, failures, strict=True)
        )
        raise DownloadError(
            f"no source has {self._job.name}: {reasons}",
            hint="the partial download is kept; the next pull continues it",
        )

    def _finished_download(self, sources: Sequence[DownloadSource]) -> tuple[Path, DownloadSource] | None:
        """Return a GGUF that an earlier process downloaded completely but did not export."""
        path = self._work / self._job.expected.file_name
        if self._job.expected.sha256 is None or not path.is_file():
            return None
        try:
            check(path, self._job.expected, self._progress)
        except BadFileError:
            path.unlink()
            return None
        return path, next(source for source in sources)

    def _reserve(self, gguf_bytes: int, *, download: bool = True) -> None:
        check_space(self._layout.home, gguf_bytes, present=bytes_under(self._work), download=download)

    def _announce(self) -> None:
        licence = self._job.licence
        if licence is None:
            return
        amount = f", {size(self._job.expected.bytes)}" if self._job.expected.bytes else ""
        self._notice(f"{self._job.name}{amount}; licence: {licence.name}, {licence.url}")
        if licence.notice:
            self._notice(f"note: {licence.notice}")

    def _export(self, gguf: Path, source: DownloadSource) -> None:
        from edgedec.export import export_gguf

        provenance = {"kind": source.kind, "origin": source.origin}
        if self._job.licence:
            provenance |= {"licence": self._job.licence.name, "licence_url": self._job.licence.url}
        export_gguf(
            gguf,
            self._layout.model(self._job.name),
            name=self._job.name,
            provenance=provenance,
            progress=self._progress,
        )
        if (self._layout.model(self._job.name) / GGUF).is_file():
            self._notice(f"note: {self._job.name} is run by llama.cpp, not by EdgeDec's kernels")
