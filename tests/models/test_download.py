"""One file over HTTP, from servers that break off, ignore Range, lie or refuse."""

from __future__ import annotations

import errno
import random
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from edgedec.core.errors import BadFileError, DownloadError, StorageError
from edgedec.models.sources.download import download
from edgedec.models.sources.simple_index import Link
from tests.models.site import Site

DATA = random.Random(1).randbytes(300_000)


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def get(site: Site, tmp_path: Path, pauses: list[float]) -> Any:
    site.files["/f.whl"] = DATA

    def run(
        *, digest: str | None = None, url: str | None = None, retries: int = 3, report: Any = None
    ) -> Path:
        link = Link(url or f"{site.url}/f.whl", "f.whl", ("sha256", digest) if digest else None)
        with httpx.Client(follow_redirects=True, timeout=5) as client:
            return download(
                client,
                link,
                tmp_path / "f.whl",
                report=report or (lambda done, total: None),
                retries=retries,
                sleep=pauses.append,
            )

    return run


def test_a_file_arrives_whole_with_monotonic_progress(get: Any) -> None:
    seen: list[tuple[int, int | None]] = []
    path = get(report=lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == DATA
    assert seen[-1] == (len(DATA), len(DATA))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert not path.with_name("f.whl.part").exists()


@pytest.mark.parametrize("number", ["²", "-1", "9" * 5000, "1e3", ""])
def test_headers_that_are_no_numbers_count_as_absent(number: str, tmp_path: Path) -> None:
    """A retry, a piece and the whole, each of a length that nobody can tell."""
    tmp_path.joinpath("f.whl.part").write_bytes(b"01")
    said = number.encode("latin-1")
    answers = iter(
        [
            httpx.Response(503, headers={"retry-after": said}),
            httpx.Response(206, headers={"content-range": b"bytes " + said + b"-9/10"}, content=b"23"),
            httpx.Response(200, headers={"content-length": said}, stream=httpx.ByteStream(b"0123456789")),
        ]
    )
    pauses: list[float] = []
    with httpx.Client(transport=httpx.MockTransport(lambda request: next(answers))) as client:
        link = Link("https://host.invalid/f.whl", "f.whl")
        path = download(
            client, link, tmp_path / "f.whl", report=lambda done, total: None, sleep=pauses.append
        )
    assert path.read_bytes() == b"0123456789"
    assert max(pauses) <= 30


def test_a_dropped_connection_is_continued_and_no_byte_is_sent_twice(
    get: Any, site: Site, pauses: list[float]
) -> None:
    site.script["/f.whl"] = deque([("drop", 100_000), ("drop", 60_000)])
    assert get().read_bytes() == DATA
    first, second, third = site.of("/f.whl")
    assert "range" not in first.headers
    assert second.headers["range"] == f"bytes={first.sent}-"
    assert third.headers["range"] == f"bytes={first.sent + second.sent}-"
    assert first.sent + second.sent + third.sent == len(DATA)
    assert len(pauses) == 2


def test_progress_resets_the_count_of_failures(get: Any, site: Site) -> None:
    site.script["/f.whl"] = deque([("drop", 20_000)] * 6)
    assert get(retries=1).read_bytes() == DATA
    assert len(site.of("/f.whl")) == 7


def test_a_part_left_by_an_earlier_process_is_continued(get: Any, site: Site, tmp_path: Path) -> None:
    (tmp_path / "f.whl.part").write_bytes(DATA[:120_000])
    assert get().read_bytes() == DATA
    (request,) = site.of("/f.whl")
    assert request.headers["range"] == "bytes=120000-"
    assert request.sent == len(DATA) - 120_000


def test_a_complete_part_is_not_fetched_again(get: Any, site: Site, tmp_path: Path) -> None:
    (tmp_path / "f.whl.part").write_bytes(DATA)
    assert get().read_bytes() == DATA
    assert [(request.status, request.sent) for request in site.of("/f.whl")] == [(416, 0)]


def test_a_part_longer_than_the_file_is_thrown_away(get: Any, tmp_path: Path) -> None:
    (tmp_path / "f.whl.part").write_bytes(DATA + b"more")
    assert get().read_bytes() == DATA


def test_a_server_that_ignores_range_is_read_from_the_start(get: Any, site: Site) -> None:
    site.ranges = False
    site.script["/f.whl"] = deque([("drop", 100_000)])
    assert get().read_bytes() == DATA
    assert [request.status for request in site.of("/f.whl")] == [200, 200]


def test_a_server_that_ignores_range_and_always_breaks_off_is_given_up(get: Any, site: Site) -> None:
    site.ranges = False
    site.script["/f.whl"] = deque([("drop", 100_000)] * 50)
    with pytest.raises(DownloadError, match=r"f\.whl") as caught:
        get(retries=3)
    assert "continues" in str(caught.value)
    assert len(site.of("/f.whl")) == 5


def test_server_errors_are_retried_with_growing_pauses(get: Any, site: Site, pauses: list[float]) -> None:
    site.script["/f.whl"] = deque([("status", 500), ("status", 503), ("status", 429)])
    assert get().read_bytes() == DATA
    assert pauses == sorted(pauses)
    assert len(set(pauses)) == 3


def test_retry_after_is_obeyed(get: Any, site: Site, pauses: list[float]) -> None:
    site.headers["Retry-After"] = "7"
    site.script["/f.whl"] = deque([("status", 503)])
    get()
    assert pauses == [7.0]


def test_a_server_that_stays_broken_is_reported_and_the_part_kept(
    get: Any, site: Site, tmp_path: Path
) -> None:
    site.script["/f.whl"] = deque([("drop", 50_000), *[("status", 500)] * 9])
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1 answered 500"):
        get(retries=2)
    assert (tmp_path / "f.whl.part").read_bytes() == DATA[:50_000]


def test_not_found_is_not_retried(get: Any, site: Site, pauses: list[float]) -> None:
    with pytest.raises(DownloadError, match=r"answered 404 for f\.whl"):
        get(url=f"{site.url}/missing.whl")
    assert pauses == []


def test_redirects_are_followed(get: Any, site: Site) -> None:
    site.files["/old.whl"] = b"unused"
    site.script["/old.whl"] = deque([("redirect", "/f.whl")])
    assert get(url=f"{site.url}/old.whl").read_bytes() == DATA


def test_nobody_listening_is_one_line(get: Any) -> None:
    with pytest.raises(DownloadError, match=r"cannot connect to 127\.0\.0\.1"):
        get(url="http://127.0.0.1:9/f.whl", retries=0)


def test_a_wrong_hash_leaves_nothing_behind(get: Any, tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="hash"):
        get(digest="0" * 64)
    assert list(tmp_path.iterdir()) == []


class Torrent(httpx.SyncByteStream):
    """Far more than was asked for; ``taken`` blocks of it were read."""

    taken = 0

    def __iter__(self) -> Iterator[bytes]:
        for _ in range(1000):
            self.taken += 1
            yield bytes(100)


@pytest.mark.parametrize(
    ("stated", "headers", "before", "taken"),
    [
        (250, {}, b"", 3),
        (None, {"content-length": "250"}, b"", 3),
        (250, {"content-length": "100000"}, b"", 0),
        (250, {}, b"x" * 200, 3),
        (250, {"content-range": "bytes 200-249/250"}, b"x" * 200, 1),
        (250, {}, b"x" * 251, 3),
    ],
)
def test_a_download_ends_at_the_first_byte_too_many(
    tmp_path: Path, stated: int | None, headers: dict[str, str], before: bytes, taken: int
) -> None:
    if before:
        (tmp_path / "f.whl.part").write_bytes(before)
    torrent, largest = Torrent(), 0

    def report(done: int, total: int | None) -> None:
        nonlocal largest
        largest = max(largest, done)

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(206 if "content-range" in headers else 200, headers=headers, stream=torrent)

    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        link = Link("https://host.invalid/f.whl", "f.whl", size=stated)
        with pytest.raises(BadFileError, match=r"host\.invalid sends more than the 250 B .* for f\.whl"):
            download(client, link, tmp_path / "f.whl", report=report, sleep=lambda s: None)
    assert torrent.taken == taken
    assert largest <= 250
    assert list(tmp_path.iterdir()) == []


def test_a_part_of_another_file_is_replaced_once(get: Any, site: Site, tmp_path: Path) -> None:
    import hashlib

    (tmp_path / "f.whl.part").write_bytes(b"x" * 1000)
    assert get(digest=hashlib.sha256(DATA).hexdigest()).read_bytes() == DATA
    assert [request.headers.get("range") for request in site.of("/f.whl")] == ["bytes=1000-", None]


def test_a_full_disk_is_a_storage_error_and_the_part_stays(
    get: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = Path.open

    class Full:
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            self._stream.close()

        def write(self, data: bytes) -> int:
            if self._stream.tell() > 65_536:
                raise OSError(errno.ENOSPC, "No space left on device")
            return int(self._stream.write(data))

    def open_(self: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        stream = real(self, mode, *args, **kwargs)
        return Full(stream) if self.suffix == ".part" and mode in ("ab", "wb") else stream

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", open_)
        with pytest.raises(StorageError, match="no space left"):
            get()
    kept = (tmp_path / "f.whl.part").read_bytes()
    assert kept
    assert DATA.startswith(kept)
    assert get().read_bytes() == DATA
