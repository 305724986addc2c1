"""A loopback web server that misbehaves on request and keeps a record of what it was asked and sent."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import threading
import time
import zipfile
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    sent: int = 0
    status: int = 0


@dataclass
class Site:
    """``files`` by path. ``script[path]`` is consumed one entry a request:

    ("status", 500), ("drop", n) = close after n body bytes, ("redirect", path), ("slow", seconds per 16 KiB).
    """

    files: dict[str, bytes] = field(default_factory=dict)
    script: dict[str, deque[tuple[str, object]]] = field(default_factory=lambda: defaultdict(deque))
    requests: list[Request] = field(default_factory=list)
    ranges: bool = True
    password: str | None = None
    content_type: str = "text/html"
    headers: dict[str, str] = field(default_factory=dict)
    url: str = ""

    def of(self, path: str, method: str = "GET") -> list[Request]:
        return [request for request in self.requests if (request.path, request.method) == (path, method)]

    def add_wheel(
        self, distribution: str, version: str, members: dict[str, bytes], *, hashed: bool = True
    ) -> str:
        """Put a wheel and its index page on the site; returns the wheel's path."""
        data = wheel_bytes(members)
        name = f"{distribution.replace('-', '_')}-{version}-py3-none-any.whl"
        path = f"/files/{name}"
        fragment = f"#sha256={hashlib.sha256(data).hexdigest()}" if hashed else ""
        self.files[path] = data
        self.files[f"/simple/{distribution}/"] = (
            f'<html><a href="../..{path}{fragment}">{name}</a></html>'.encode()
        )
        return path

    def add_repository(self, repo: str, files: dict[str, bytes], *, large: str = r"\.gguf$") -> str:
        """Answer as the model hub does for a repository; returns its commit, which its content decides.

        Files whose path matches ``large`` have a SHA-256 in the listing, others that of a git object.
        """
        commit = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        siblings = []
        for path, data in files.items():
            blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            one: dict[str, object] = {"rfilename": path, "size": len(data), "blobId": blob}
            if re.search(large, path):
                digest = hashlib.sha256(data).hexdigest()
                one["lfs"] = {"size": len(data), "sha256": digest, "pointerSize": 130}
            siblings.append(one)
            for revision in ("main", commit):
                self.files[f"/{repo}/resolve/{revision}/{path}"] = data
        listing = {"id": repo, "sha": commit, "siblings": siblings, "tags": ["license:apache-2.0"]}
        for page in (f"/api/models/{repo}", f"/api/models/{repo}/revision/{commit}"):
            self.files[page] = json.dumps(listing).encode()
        self.headers["X-Repo-Commit"] = commit
        return commit


def wheel_bytes(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(site))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Keep the test output clean."""

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, body: bool) -> None:
            path = self.path.partition("?")[0]
            request = Request(self.command, path, {k.lower(): v for k, v in self.headers.items()})
            site.requests.append(request)
            action, value = site.script[path].popleft() if body and site.script[path] else ("", None)
            expected = "Basic " + base64.b64encode((site.password or "").encode()).decode()
            if site.password and request.headers.get("authorization") != expected:
                self._status(request, 401)
            elif action == "redirect":
                self._status(request, 302, location=str(value))
            elif action == "status":
                self._status(request, int(str(value)))
            elif path not in site.files:
                self._status(request, 404)
            else:
                self._file(request, site.files[path], body, action, value)

        def _status(self, request: Request, status: int, location: str = "") -> None:
            request.status = status
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            for name, text in site.headers.items():
                self.send_header(name, text)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _file(self, request: Request, data: bytes, body: bool, action: str, value: object) -> None:
            match = re.match(r"bytes=(\d+)-", request.headers.get("range", "")) if site.ranges else None
            start = int(match[1]) if match else 0
            request.status = 206 if match else 200
            if start >= len(data) and match:
                request.status = 416
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(data)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(request.status)
            if match:
                self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            self.send_header("Content-Type", site.content_type)
            self.send_header("Content-Length", str(len(data) - start))
            self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
            for name, text in site.headers.items():
                self.send_header(name, text)
            self.end_headers()
            if body:
                self._send(request, data[start:], action, value)

        def _send(self, request: Request, data: bytes, action: str, value: object) -> None:
            limit = int(str(value)) if action == "drop" else len(data)
            try:
                for offset in range(0, min(limit, len(data)), 16384):
                    piece = data[offset : min(limit, offset + 16384)]
                    request.sent += len(piece)  # before a client that has it all can look
                    self.wfile.write(piece)
                    if action == "slow":
                        time.sleep(float(str(value)))
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True
            if action == "drop":
                self.wfile.flush()
                self.close_connection = True

    return Handler
