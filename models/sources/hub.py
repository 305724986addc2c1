"""Fetch a GGUF from the model hub.

huggingface_hub states the address, the size and the token to use (HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE
count). EdgeDec downloads the file itself: newer versions of that library do not resume a killed download.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgedec.core.errors import BadFileError, DownloadError, EdgeDecError, NotFoundError
from edgedec.core.progress import Progress
from edgedec.models.recipes import HubFile
from edgedec.models.sources.verify import Expected, check

_TRANSPORTS = ("httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3", "huggingface_hub")
_AGAIN = "run it again: it continues where it stopped"


@dataclass(frozen=True, slots=True)
class ModelHub:
    """A file on the hub. ``reserve`` gets its bytes before the download, and may raise StorageError."""

    file: HubFile
    expected: Expected
    reserve: Callable[[int], None]

    kind = "model hub"

    @property
    def origin(self) -> str:
        """The reference ``hf:owner/repo/file``."""
        return str(self.file)

    def fetch(self, into: Path, progress: Progress) -> Path:
        """Download to ``into``; see DownloadSource.fetch. Size and hash must be those of the hub."""
        import huggingface_hub as hub

        with _plain_errors(self.file):
            url = hub.hf_hub_url(self.file.repo, self.file.file, revision=self.file.revision)
            remote = hub.get_hf_file_metadata(url)
            token = None if hub.constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else hub.get_token()
        expected = self._refine(remote.size, remote.etag)
        self.reserve(expected.bytes or 0)
        path = _download(url, token, expected, into, progress)
        try:
            check(path, Expected(expected.file_name, expected.bytes), progress)
        except BadFileError:
            path.unlink()
            raise
        return path

    def _refine(self, size: int | None, etag: str | None) -> Expected:
        """Complete the recipe's facts by those of the hub, where the ETag of a large file is its SHA-256."""
        wanted = self.expected
        stated = etag if etag and re.fullmatch(r"[0-9a-f]{64}", etag) else None
        wrong_size = wanted.bytes is not None and size is not None and size != wanted.bytes
        if wrong_size or (wanted.sha256 and stated and stated != wanted.sha256):
            raise BadFileError(
                f"{self.file} on the hub is another file than the recipe names", hint="update edgedec"
            )
        return Expected(wanted.file_name, wanted.bytes or size, wanted.sha256 or stated)


def _download(url: str, token: str | None, expected: Expected, into: Path, progress: Progress) -> Path:
    from edgedec.models.sources.download import download
    from edgedec.models.sources.pip_config import PipConfig
    from edgedec.models.sources.simple_index import Link
    from edgedec.models.sources.web import Web

    digest = ("sha256", expected.sha256) if expected.sha256 else None
    link = Link(url, expected.file_name, digest, expected.bytes)

    def report(done: int, total: int | None) -> None:
        progress("download", done, total or expected.bytes or 0)

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with Web(PipConfig(timeout=30.0), headers) as web:
        return download(web.client(url), link, into / expected.file_name, report=report)


@contextmanager
def _plain_errors(file: HubFile) -> Iterator[None]:
    from huggingface_hub import errors

    try:
        yield
    except EdgeDecError:
        raise
    except (errors.GatedRepoError, errors.RepositoryNotFoundError) as error:
        raise _refused(file, error) from error
    except (errors.RevisionNotFoundError, errors.HFValidationError) as error:
        raise NotFoundError(
            f"{file} is not on the model hub", hint="the form is hf:owner/repo/file.gguf"
        ) from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise _unreachable(file) from error
    except errors.EntryNotFoundError as error:
        raise NotFoundError(f"{file.repo} on the model hub has no file {file.file}") from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _TRANSPORTS:
            raise
        raise _undelivered(file, error) from error


def _refused(file: HubFile, error: Exception) -> EdgeDecError:
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return DownloadError(
            f"{file.repo} is gated on the model hub",
            hint="accept its terms there, then set HF_TOKEN to your token",
        )
    if _status(error) in (401, 403):
        return NotFoundError(
            f"{file.repo} does not exist on the model hub, or is private",
            hint="for a private one set HF_TOKEN",
        )
    return NotFoundError(
        f"{file.repo} does not exist on the model hub", hint="the form is hf:owner/repo/file.gguf"
    )


def _undelivered(file: HubFile, error: Exception) -> EdgeDecError:
    status = _status(error)
    if status in (401, 403):
        return _refused(file, error)
    if type(error).__name__.startswith(("Connect", "Proxy")):
        return _unreachable(file)
    reason = f"it answered {status}" if status else type(error).__name__
    return DownloadError(f"the model hub did not deliver {file}: {reason}", hint=_AGAIN)


def _unreachable(file: HubFile) -> DownloadError:
    return DownloadError(
        f"the model hub cannot be reached for {file}", hint=f"check the connection; {_AGAIN}"
    )


def _status(error: Exception) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)
