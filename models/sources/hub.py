"""Fetch a model from the model hub: a GGUF file, or the files of a Hugging Face directory.

huggingface_hub states addresses, sizes, hashes and the token to use (HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE
count). EdgeDec downloads the files itself: newer versions of that library do not resume a killed download.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import field, replace
from pathlib import Path

from edgedec.core.errors import BadFileError
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass
from edgedec.models.hub_origin import BY_ORDER, CHOSEN, FILE, REPO, REVISION
from edgedec.models.recipes import HubFile
from edgedec.models.sources.hub_errors import plain_errors
from edgedec.models.sources.hub_listing import CONFIG, Located, RemoteFile, locate
from edgedec.models.sources.verify import Expected, check

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ModelHub:
    """A model on the hub. ``reserve`` gets its bytes before the download, and may raise StorageError.

    Without ``located`` a ``file`` that names none is looked up first. ``facts`` are known after ``fetch``.
    """

    file: HubFile
    expected: Expected
    reserve: Callable[[int], None]
    located: Located | None = None
    facts: dict[str, str] = field(default_factory=dict)

    kind = "model hub"

    @property
    def origin(self) -> str:
        """The reference ``hf:owner/repo/file``."""
        return str(self.file)

    def fetch(self, into: Path, progress: Progress) -> Path:
        """Download to ``into``; see DownloadSource.fetch. Sizes and hashes must be those of the hub.

        A Hugging Face model is a directory; of a file in parts the first is returned. Raises UnsupportedError
        for an architecture that has no graph, before its weights are fetched.
        """
        located = self.located or (None if self.file.file else locate(self.file))
        file = located.file if located else self.file
        if file.file is None:
            assert located is not None
            path = self._directory(located, into / "model", progress)
            commit = file.revision
        elif located and len(located.files) > 1:
            self.reserve(located.bytes)
            path = fetch_files(located, into, progress) / self.expected.file_name
            commit = file.revision
        else:
            stated = located.files[0] if located else RemoteFile(file.file, None)
            path, commit = self._gguf(file, stated, into, progress)
        facts = {REPO: file.repo, FILE: file.file, REVISION: commit}
        self.facts.update({key: value for key, value in facts.items() if value})
        if located and located.usual:
            self.facts[CHOSEN] = BY_ORDER
        return path

    def _gguf(
        self, file: HubFile, stated: RemoteFile, into: Path, progress: Progress
    ) -> tuple[Path, str | None]:
        """Return the path of the file and the commit that it is of."""
        import huggingface_hub as hub

        assert file.file is not None
        with plain_errors(file):
            url = hub.hf_hub_url(file.repo, file.file, revision=file.revision)
            remote = hub.get_hf_file_metadata(url)
        etag = remote.etag if remote.etag and _SHA256.fullmatch(remote.etag) else None
        expected = self._refine(stated.bytes or remote.size, stated.sha256 or etag)
        self.reserve(expected.bytes or 0)
        path = _download(url, expected, into, progress)
        return path, remote.commit_hash or file.revision

    def _refine(self, size: int | None, sha256: str | None) -> Expected:
        """Complete the recipe's facts by those of the hub, where the ETag of a large file is its SHA-256."""
        wanted = self.expected
        wrong_size = wanted.bytes is not None and size is not None and size != wanted.bytes
        if wrong_size or (wanted.sha256 and sha256 and sha256 != wanted.sha256):
            raise BadFileError(
                f"{self.file} on the hub is another file than the recipe names", hint="update edgedec"
            )
        return Expected(wanted.file_name, wanted.bytes or size, wanted.sha256 or sha256)

    def _directory(self, located: Located, into: Path, progress: Progress) -> Path:
        """Fetch ``config.json`` first, and the rest if EdgeDec builds a graph for it."""
        from edgedec.export import check_huggingface

        self.reserve(located.bytes)
        return fetch_files(located, into, progress, check_huggingface)


def fetch_files(
    located: Located, into: Path, progress: Progress, checked: Callable[[Path], None] = lambda folder: None
) -> Path:
    """Download all files of ``located`` to ``into``, ``config.json`` first, which ``checked`` may refuse.

    Sizes and hashes must be those of the hub. Raises the errors of ``DownloadSource.fetch``.
    """
    import huggingface_hub as hub

    into.mkdir(parents=True, exist_ok=True)
    before = 0
    for remote in sorted(located.files, key=lambda one: one.path != CONFIG):
        file = replace(located.file, file=remote.path)
        expected = Expected(Path(remote.path).name, remote.bytes, remote.sha256)

        def report(stage: str, done: int, total: int, before: int = before) -> None:
            progress(stage, before + done, max(located.bytes, before + done))

        with plain_errors(file):
            url = hub.hf_hub_url(file.repo, remote.path, revision=file.revision)
            hub.get_hf_file_metadata(url)
        path = _download(url, expected, into, report)
        _check_git(path, remote)
        before += path.stat().st_size
        if remote.path == CONFIG:
            checked(into)
    return into


def _download(url: str, expected: Expected, into: Path, progress: Progress) -> Path:
    """Return the file, whose size and hash are checked, also where an earlier process had finished it."""
    import huggingface_hub as hub

    from edgedec.models.sources.download import download
    from edgedec.models.sources.pip_config import PipConfig
    from edgedec.models.sources.simple_index import Link
    from edgedec.models.sources.web import Web

    digest = ("sha256", expected.sha256) if expected.sha256 else None
    link = Link(url, expected.file_name, digest, expected.bytes)
    token = None if hub.constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else hub.get_token()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    target = into / expected.file_name
    present = target.is_file()

    def report(done: int, total: int | None) -> None:
        progress("download", done, total or expected.bytes or 0)

    with Web(PipConfig(timeout=30.0), headers) as web:
        path = download(web.client(url), link, target, report=report)
    try:
        # ``download`` has compared the hash of all that it fetched.
        check(path, expected if present else replace(expected, sha256=None), progress)
    except BadFileError:
        path.unlink()
        raise
    return path


def _check_git(path: Path, remote: RemoteFile) -> None:
    """Raise BadFileError unless a small file is the git object that the listing states."""
    if remote.sha256 or not remote.git_sha1:
        return
    data = path.read_bytes()
    if hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest() != remote.git_sha1:
        path.unlink()
        raise BadFileError(f"{remote.path} is not the file that the model hub states", hint="pull it again")
