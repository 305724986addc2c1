"""Find one wheel on a package index (PEP 503 pages, PEP 691 JSON) or among ``find-links``."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import url2pathname

import httpx

from edgedec.core.errors import DownloadError
from edgedec.core.quick_dataclass import dataclass
from edgedec.models.recipes import Wheel
from edgedec.models.sources.pip_config import PipConfig
from edgedec.models.sources.web import Auth, RefusedError, Web, explain, host_of, split_credentials

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_STRONG = ("sha256", "sha384", "sha512")


@dataclass(frozen=True, slots=True)
class Link:
    """A file on an index. ``url`` holds no credentials; ``digest`` is (algorithm, hex) if stated."""

    url: str
    file_name: str
    digest: tuple[str, str] | None = None
    size: int | None = None
    auth: Auth | None = None

    @property
    def local(self) -> Path | None:
        """The path of a ``file://`` link."""
        return _path_of(self.url) if self.url.startswith("file:") else None


def find_wheel(web: Web, config: PipConfig, wheel: Wheel) -> Link:
    """Return the first wheel of exactly this version, find-links before indexes.

    Raises DownloadError with the answer of each index. It is a RefusedError of status 401, 403 or 407 when
    an index wants credentials; the caller can let pip try with its own.
    """
    failures: list[DownloadError] = []
    empty: list[str] = []
    places = [(place, False) for place in config.find_links] + [(index, True) for index in config.indexes]
    for place, is_index in places:
        try:
            links = _read_place(web, place, wheel.distribution if is_index else None)
        except DownloadError as error:
            failures.append(error)
            continue
        if link := choose(links, wheel):
            return link
        empty.append(_label(place))
    for failure in failures:
        if isinstance(failure, RefusedError) and failure.status in (401, 403, 407):
            raise failure
    reasons = [failure.message for failure in failures]
    if empty:
        reasons.append(f"not on {', '.join(empty)}")
    raise DownloadError(
        f"{wheel.requirement} was not found: {'; '.join(reasons) or 'pip has no index configured'}",
        hint="check the connection and `python -m pip config list`",
    )


def choose(links: list[Link], wheel: Wheel) -> Link | None:
    """Return the link to a wheel of a distribution and version; one for any platform is preferred."""
    name = _normal(wheel.distribution)
    matching = []
    for link in links:
        fields = link.file_name.removesuffix(".whl").split("-")
        if (
            link.file_name.endswith(".whl")
            and len(fields) >= 5
            and (_normal(fields[0]), fields[1]) == (name, wheel.version)
        ):
            matching.append(link)
    return min(matching, key=lambda link: not link.file_name.endswith("-none-any.whl"), default=None)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _label(place: str) -> str:
    return urlsplit(place).hostname or place


def _read_place(web: Web, place: str, distribution: str | None) -> list[Link]:
    """Read the links of an index for ``distribution``, or of a find-links place (None)."""
    local = (
        _path_of(place) if place.startswith("file:") else None if "://" in place else Path(place).expanduser()
    )
    suffix = f"{_normal(distribution)}/" if distribution else ""
    if local is not None:
        return _read_local(local / suffix if suffix else local)
    if not place.startswith(("http://", "https://")):
        raise RefusedError(f"{_label(place)} is neither http nor file", 401)
    return _read_page(web, place.rstrip("/") + "/" + suffix if suffix else place)


def _read_local(path: Path) -> list[Link]:
    page = path / "index.html" if path.is_dir() else path
    if page.suffix in (".html", ".htm") and page.is_file():
        return parse_html(page.read_text(encoding="utf-8", errors="replace"), page.absolute().as_uri(), None)
    if path.is_dir():
        return [Link(wheel.absolute().as_uri(), wheel.name) for wheel in sorted(path.glob("*.whl"))]
    return []


def _read_page(web: Web, address: str) -> list[Link]:
    url, auth = split_credentials(address)
    last = ""
    for _ in range(max(1, min(web.config.retries, 5))):
        try:
            response = web.client(url).get(url, auth=auth, headers={"Accept": _ACCEPT})
        except httpx.HTTPError as error:
            last = explain(error, url)
            continue
        if response.status_code in (404, 410):
            return []
        if response.status_code >= 500 or response.status_code == 429:
            last = f"{host_of(url)} answered {response.status_code}"
            continue
        if response.status_code != 200:
            raise RefusedError(f"{host_of(url)} answered {response.status_code}", response.status_code)
        base = str(response.url)
        if "json" in response.headers.get("content-type", ""):
            return parse_json(response.content, base, auth)
        return parse_html(response.text, base, auth)
    raise DownloadError(last)


def parse_json(content: bytes, base: str, auth: Auth | None) -> list[Link]:
    """Return the links of a PEP 691 page. Raises DownloadError when it is not one."""
    try:
        files: list[dict[str, Any]] = json.loads(content)["files"]
        return [
            _link(
                urljoin(base, entry["url"]),
                base,
                auth,
                entry["filename"],
                entry.get("hashes") or {},
                entry.get("size"),
            )
            for entry in files
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DownloadError(f"{host_of(base)} sent an index page that cannot be read") from error


def parse_html(text: str, base: str, auth: Auth | None) -> list[Link]:
    """Return the links of a PEP 503 page that lead to files."""
    parser = _Anchors()
    parser.feed(text)
    links = []
    with suppress(ValueError):
        base = urljoin(base, parser.base) if parser.base else base
    for href in parser.hrefs:
        with suppress(ValueError):  # not a URL
            url, fragment = urldefrag(urljoin(base, href))
            algorithm, _, digest = fragment.partition("=")
            name = unquote(urlsplit(url).path.rpartition("/")[2])
            links.append(_link(url, base, auth, name, {algorithm: digest}, None))
    return links


def _link(url: str, base: str, auth: Auth | None, name: object, hashes: dict[str, str], size: object) -> Link:
    """Return a link. Raises ValueError for an invalid name or URL."""
    if not (isinstance(name, str) and _is_plain(name)):
        raise ValueError("a file name on the index has a path in it")
    bare, own = split_credentials(url) if not url.startswith("file:") else (url, None)
    same_host = urlsplit(bare).netloc == urlsplit(base).netloc.rpartition("@")[2]
    digest = next(((kind, hashes[kind].lower()) for kind in _STRONG if hashes.get(kind)), None)
    stated = size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None
    return Link(bare, name, digest, stated, own or (auth if same_host else None))


def _is_plain(name: str) -> bool:
    """Return whether a name from an index is safe as a file name among the downloads."""
    return name not in ("", ".", "..") and not set(name) & set("/\\:\0")


def _path_of(url: str) -> Path:
    return Path(url2pathname(urlsplit(url).path))


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []
        self.base: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if href and tag == "a":
            self.hrefs.append(href)
        elif href and tag == "base" and self.base is None:
            self.base = href
