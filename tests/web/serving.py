"""A server of static files with faults: it cuts, refuses ranges, changes bytes, and counts what it sent."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_KINDS = {
    ".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".json": "application/json",
    ".svg": "image/svg+xml", ".wasm": "application/wasm",
}  # fmt: skip


@dataclass
class Faults:
    """Faults to play with one file, and what was asked for."""

    name: str = "model/weights.bin"
    cut_after: int = 0
    """Bytes of the file after which a connection is closed; 0: never."""
    cuts: int = 0
    """Number of times."""
    ranges: bool = True
    changed: int = 0
    """Answers in which a byte is changed."""
    isolated: bool = False
    """Whether answers isolate the page from other sites."""
    missing: bool = False
    stalled: threading.Event | None = None
    """Waited for in the middle of the file."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Path and range of each request."""
    sent: int = 0
    """Bytes of the file."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: Path
    faults: Faults

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        name = self.path.split("?")[0].removeprefix("/") or "index.html"
        asked = self.headers.get("Range", "")
        self.faults.asked.append((name, asked))
        path = self.folder / name
        faulty = name == self.faults.name
        if not path.is_file() or (faulty and self.faults.missing):
            self.send_error(404)
            return
        data = path.read_bytes()
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", asked) if self.faults.ranges else None
        first, last = (int(found[1]), int(found[2])) if found else (0, len(data) - 1)
        self.send_response(206 if found else 200)
        if found:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.send_header("Content-Type", _KINDS.get(path.suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(last + 1 - first))
        if self.faults.isolated:
            self.send_header("Cross-Origin-Opener-Policy", "same-origin")
            self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.end_headers()
        part = data[first : last + 1]
        if faulty:
            self._faulty(part)
        else:
            self.wfile.write(part)

    def _faulty(self, part: bytes) -> None:
        faults = self.faults
        if faults.changed:
            faults.changed -= 1
            part = bytes([part[0] ^ 1]) + part[1:]
        if faults.cuts and len(part) > faults.cut_after:
            faults.cuts -= 1
            part = part[: faults.cut_after]
            self.close_connection = True
        half = len(part) // 2
        for piece in (part[:half], part[half:]):
            self.wfile.write(piece)
            faults.sent += len(piece)
            if faults.stalled and piece is not part[half:]:
                self.wfile.flush()
                faults.stalled.wait(20)


@contextmanager
def serving(folder: Path, faults: Faults | None = None) -> Iterator[str]:
    """Serve a folder on a free port of loopback; yields the address."""
    handler = type("Handler", (_Handler,), {"folder": folder, "faults": faults or Faults()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
