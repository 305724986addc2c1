"""Say in one line why the model hub did not deliver.

huggingface_hub raises errors of its own and of whichever HTTP library it uses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from edgedec.core.errors import DownloadError, EdgeDecError, NotFoundError
from edgedec.models.hub_names import FORMS
from edgedec.models.recipes import HubFile
from edgedec.remote.proxies import proxy_fault

_TRANSPORTS = ("httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3", "huggingface_hub")
AGAIN = "run it again: it continues where it stopped"
_INSTEAD = "check the connection; models that are installed and files on the disk work without it"


class NoRepositoryError(NotFoundError):
    """The hub has no such repository, or shows it only to others."""


class UnreachableError(DownloadError):
    """The hub does not answer, or only that it cannot."""


@contextmanager
def plain_errors(file: HubFile) -> Iterator[None]:
    """Turn the errors of huggingface_hub about ``file`` into NotFoundError or DownloadError."""
    from huggingface_hub import errors

    try:
        yield
    except EdgeDecError:
        raise
    except errors.GatedRepoError as error:
        raise _gated(file) from error
    except errors.RepositoryNotFoundError as error:
        raise _missing(file, _status(error)) from error
    except errors.RevisionNotFoundError as error:
        revision = file.revision or "main"
        raise NotFoundError(f"{file.repo} on the model hub has no revision {revision}") from error
    except errors.HFValidationError as error:
        raise NotFoundError(f"{file} is not on the model hub", hint=f"the forms are {FORMS}") from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise unreachable(file, "HF_HUB_OFFLINE is set") from error
    except errors.EntryNotFoundError as error:
        raise NotFoundError(f"{file.repo} on the model hub has no file {file.file}") from error
    except RecursionError as error:  # of JSON that is nested a thousand times
        raise DownloadError(f"the model hub sent an answer about {file} that cannot be read") from error
    except Exception as error:
        if fault := proxy_fault(error):
            raise DownloadError(fault[0], hint=fault[1]) from None
        if type(error).__module__.partition(".")[0] not in _TRANSPORTS:
            raise
        raise _undelivered(file, error) from error


def unreachable(file: HubFile, reason: str) -> UnreachableError:
    """Return the error for a hub that does not answer."""
    return UnreachableError(
        f"the model hub ({_host()}) cannot be reached for {file}: {reason}", hint=_INSTEAD
    )


def _host() -> str:
    endpoint = os.environ.get("HF_ENDPOINT", "")
    return urlsplit(endpoint).hostname or "huggingface.co"


def _gated(file: HubFile) -> DownloadError:
    return DownloadError(
        f"{file.repo} is gated on the model hub",
        hint=f"accept its terms at https://{_host()}/{file.repo}, then set HF_TOKEN to your token",
    )


def _missing(file: HubFile, status: int | None) -> NoRepositoryError:
    if status in (401, 403):
        return NoRepositoryError(
            f"{file.repo} does not exist on the model hub, or is private",
            hint="for a private one set HF_TOKEN",
        )
    return NoRepositoryError(f"{file.repo} does not exist on the model hub", hint=f"the forms are {FORMS}")


def _undelivered(file: HubFile, error: Exception) -> EdgeDecError:
    status, kind = _status(error), type(error).__name__
    if status == 401 and "HF_TOKEN" in os.environ:
        return DownloadError("the model hub does not accept HF_TOKEN", hint="renew it, or unset it")
    if status in (401, 403):
        return _missing(file, status)
    if status == 404:
        return NoRepositoryError(f"{file} is not on the model hub", hint=f"the forms are {FORMS}")
    if status == 429:
        return DownloadError(
            "the model hub answered 429: too many requests", hint="wait a few minutes; HF_TOKEN allows more"
        )
    if status is not None and status >= 500:
        return unreachable(file, f"it answered {status}")
    if status is not None:
        return DownloadError(f"the model hub did not deliver {file}: it answered {status}", hint=AGAIN)
    if "Timeout" in kind:
        return unreachable(file, "it did not answer in time")
    return unreachable(file, re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or kind)


def _status(error: Exception) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)
