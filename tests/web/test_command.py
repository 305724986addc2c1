"""``edgedec export --for web`` and ``edgedec web``: words, and files that are served or refused."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from edgedec.bundle.manifest import Manifest
from edgedec.bundle.web_folder import CONTENTS, WebFolder
from edgedec.cli.app import app
from edgedec.core.units import size
from edgedec.export.web import computing
from tests.fixtures.tiny_models import tiny_bundle
from tests.patience import PATIENCE_S
from tests.web.played import WEIGHTS, played_folder

pytest.importorskip("uvicorn")

from edgedec.server.http.files import file_application


@pytest.fixture(scope="module")
def folder(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = played_folder(tmp_path_factory.mktemp("web"), Manifest.load(tiny), 1000)
    (made / "secret.txt").write_text("not listed", encoding="utf-8")
    return made


def asked(folder: Path, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    """The answer of the server, without a socket."""
    names = [*WebFolder.load(folder).files, CONTENTS]
    transport = httpx.ASGITransport(app=file_application(folder, names))

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8081") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/page/js/app.js", "text/javascript"),
        ("/page/css/theme.css", "text/css"),
        ("/run/edgedec.wasm", "application/wasm"),
        ("/web.json", "application/json"),
        (f"/{WEIGHTS}", "application/octet-stream"),
    ],
)
def test_files_have_their_kinds_and_are_asked_for_again(folder: Path, path: str, kind: str) -> None:
    answer = asked(folder, path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].split(";")[0] == kind
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cross-origin-embedder-policy"] == "require-corp"
    again = asked(folder, path, **{"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_range_is_answered(folder: Path) -> None:
    answer = asked(folder, f"/{WEIGHTS}", range="bytes=990-999")
    assert answer.status_code == 206
    assert answer.headers["content-range"] == "bytes 990-999/1000"
    assert answer.content == (folder / WEIGHTS).read_bytes()[990:]


@pytest.mark.parametrize(
    ("path", "method", "host", "status"),
    [
        ("/secret.txt", "GET", "localhost", 404),
        ("/page/", "GET", "localhost", 404),
        ("/page/../secret.txt", "GET", "localhost", 404),
        ("/%2e%2e/secret.txt", "GET", "localhost", 404),
        ("/", "POST", "localhost", 405),
        ("/", "GET", "example.org", 403),
        ("/", "GET", "127.0.0.1.example.org:8081", 403),
    ],
)
def test_all_else_is_refused(folder: Path, path: str, method: str, host: str, status: int) -> None:
    answer = asked(folder, path, method, host=host)
    assert answer.status_code == status
    assert "not listed" not in answer.text


@pytest.fixture(scope="module")
def process(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "edgedec", "web", str(folder), "--port", "0"]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    guard = threading.Timer(PATIENCE_S, started.kill)
    guard.start()
    assert started.stdout is not None
    yield started, started.stdout.readline()
    guard.cancel()
    started.kill()
    started.communicate()


def test_the_command_serves_until_ctrl_c(process: tuple[subprocess.Popen[str], str], folder: Path) -> None:
    started, line = process
    found = re.fullmatch(
        r"Chat with Tiny llama at (http://127\.0\.0\.1:\d+), Ctrl-C ends the server\.\n", line
    )
    assert found is not None, line
    assert httpx.get(f"{found[1]}/{WEIGHTS}").content == (folder / WEIGHTS).read_bytes()
    started.send_signal(signal.SIGINT)
    rest, _ = started.communicate(timeout=PATIENCE_S)
    assert (started.returncode, rest) == (0, "")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def test_a_folder_that_is_none_is_one_line(tmp_path: Path) -> None:
    done = run("web", str(tmp_path))
    assert done.exit_code == 3
    assert done.stderr.startswith(f"error: no EdgeDec web folder at {tmp_path}")
    assert f"`edgedec export NAME --for web -o {tmp_path}` makes one" in done.stderr


def test_export_for_web(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wasm = tmp_path / "edgedec.wasm"
    wasm.write_bytes(b"\0asm")
    monkeypatch.setattr(computing, "wasm_path", lambda name: wasm)
    out = tmp_path / "page"
    done = run("export", str(tiny), "--for", "web", "-o", str(out))
    assert done.exit_code == 0, done.output
    total = WebFolder.load(out).total_bytes
    assert done.stdout == f"Tiny llama: {size(total)} in {out}. `edgedec web {out}` serves it.\n"
    small = tiny_bundle(tmp_path, seed=4)
    done = run("export", str(tiny), "--for", "web", "--with-draft", str(small), "-o", str(out))
    assert done.exit_code == 0, done.output
    assert f", with {small.name}." in done.stdout
    done = run("export", str(tiny), "--for", "web", "--with-draft", "head", "-o", str(out))
    assert done.exit_code == 3
    assert "has no drafter head" in done.stderr
