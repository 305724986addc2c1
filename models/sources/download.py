"""Download one file over HTTP, from where an earlier attempt or process stopped."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from edgedec.core.errors import BadFileError, DownloadError
from edgedec.core.units import size
from edgedec.disk.files import storage_errors
from edgedec.models.sources.simple_index import Link
from edgedec.models.sources.web import RefusedError, explain, host_of

Report = Callable[[int, int | None], None]
"""Called with the bytes on the disk so far, and in total where that is known."""

_RETRIED = (408, 425, 429, 500, 502, 503, 504)
_LONGEST_PAUSE = 30.0
_NUMBER = re.compile(r"[0-9]{1,18}")
_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]+/([0-9]{1,18}|\*)")


class _InterruptedError(Exception):
    """A failure worth another attempt. ``pause`` is the server's Retry-After in seconds."""

    def __init__(self, reason: str, pause: float | None = None) -> None:
        super().__init__(reason)
        self.pause = pause


def download(
    client: httpx.Client,
    link: Link,
    target: Path,
    *,
    report: Report,
    retries: int = 5,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    """Fetch ``link`` into ``target.part`` and rename that to ``target`` when it is complete.

    The part outlives failures, and a request with Range continues it. A ``target`` that exists is complete.
    A resumed file that fails the index's hash is fetched once more from the start. Nothing behind the size
    that the link or the server states is written. Raises DownloadError, StorageError, and BadFileError, after
    which nothing is kept.
    """
    if target.is_file():
        report(target.stat().st_size, target.stat().st_size)
        return target
    part = target.with_name(f"{target.name}.part")
    with storage_errors(str(target)):
        resumed = _size(part) > 0
        _transfer(client, link, part, report, retries, sleep)
        if resumed and not _matches(part, link):
            part.unlink()
            _transfer(client, link, part, report, retries, sleep)
        if not _matches(part, link):
            part.unlink()
            raise BadFileError(
                f"{link.file_name} from {host_of(link.url)} does not have the hash that is stated for it",
                hint="pull it again",
            )
        os.replace(part, target)
    return target


def _transfer(
    client: httpx.Client, link: Link, part: Path, report: Report, retries: int, sleep: Callable[[float], None]
) -> None:
    """Repeat until the file is whole. An attempt that got further than all before is no failure."""
    furthest, failures = _size(part), 0
    while True:
        pause = None
        try:
            if _attempt(client, link, part, report):
                return
            reason = f"{host_of(link.url)} closed the connection early"
        except _InterruptedError as error:
            reason, pause = str(error), error.pause
        except httpx.HTTPError as error:
            reason = explain(error, link.url)
        failures = 0 if _size(part) > furthest else failures + 1
        furthest = max(furthest, _size(part))
        if failures > retries:
            raise DownloadError(
                f"{link.file_name}: {reason}", hint="run it again: it continues where it stopped"
            )
        sleep(min(pause if pause is not None else 0.5 * 2.0**failures, _LONGEST_PAUSE))


def _attempt(client: httpx.Client, link: Link, part: Path, report: Report) -> bool:
    """Make one request. Return whether the file is whole."""
    if link.size is not None and _size(part) > link.size:
        part.unlink()
    offset = _size(part)
    headers = {"Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    with client.stream("GET", link.url, headers=headers, auth=link.auth) as response:
        if response.status_code == 416:
            return _is_whole(response, part, offset)
        _check_status(response, link)
        start, total = _extent(response)
        if start not in (0, offset):
            part.unlink(missing_ok=True)
            raise _InterruptedError(f"{host_of(link.url)} sent another part than was asked for")
        most = min((known for known in (total, link.size) if known is not None), default=None)
        _check_length(total, most, link, part)
        with part.open("ab" if start else "wb") as stream:
            done = start
            for block in response.iter_raw():
                done += len(block)
                _check_length(done, most, link, part)
                stream.write(block)
                report(done, total)
    return total is None or done == total


def _check_length(found: int | None, most: int | None, link: Link, part: Path) -> None:
    """Raise BadFileError, and keep nothing, if there are more bytes than are stated."""
    if found is not None and most is not None and found > most:
        part.unlink(missing_ok=True)
        raise BadFileError(
            f"{host_of(link.url)} sends more than the {size(most)} that are stated for {link.file_name}",
            hint="pull it again; if it stays so, the source serves another file",
        )


def _extent(response: httpx.Response) -> tuple[int, int | None]:
    """Return the first byte of the body, and the bytes of the whole file if stated.

    A server that ignores Range sends the whole file.
    """
    length = response.headers.get("content-length", "")
    if response.status_code == 206:
        match = _RANGE.match(response.headers.get("content-range", ""))
        if match is None:
            return -1, None
        return int(match[1]), None if match[2] == "*" else int(match[2])
    return 0, int(length) if _NUMBER.fullmatch(length) else None


def _is_whole(response: httpx.Response, part: Path, offset: int) -> bool:
    """Return for status 416 whether the part is the whole file; else it is not of this file.

    It is whole when an earlier process died before the rename.
    """
    if response.headers.get("content-range", "") == f"bytes */{offset}":
        return True
    part.unlink(missing_ok=True)
    raise _InterruptedError("the partial file does not fit the server's")


def _check_status(response: httpx.Response, link: Link) -> None:
    status = response.status_code
    if status in (200, 206):
        return
    if status in _RETRIED:
        wait = response.headers.get("retry-after", "")
        raise _InterruptedError(
            f"{host_of(link.url)} answered {status}", float(wait) if _NUMBER.fullmatch(wait) else None
        )
    raise RefusedError(f"{host_of(link.url)} answered {status} for {link.file_name}", status)


def _matches(path: Path, link: Link) -> bool:
    if link.digest is None:
        return True
    algorithm, expected = link.digest
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest() == expected


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
