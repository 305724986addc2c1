"""The runner of cases in a browser: Chromium with its software adapter, driven over loopback."""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.backends.gpu import arithmetic, shaders
from edgedec.backends.gpu.arithmetic import Arithmetic
from edgedec.core.errors import BackendError
from tests.gpu.cases import Difference, KernelCase, compared

PAGE = Path(__file__).with_name("cases.html")
FLAGS = ["--no-sandbox", "--headless=new", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]
SECONDS = 120
AT_ONCE = 20


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(PAGE.read_bytes())

    def log_message(self, *_: Any) -> None:
        pass


class Browser:
    """A page that runs cases. ``name``: its adapter."""

    def __init__(self, page: Any, name: str) -> None:
        self._page = page
        self.name = name
        self._found: dict[bool, Arithmetic] = {}

    def arithmetic(self, subnormals: bool = False) -> Arithmetic:
        """Arithmetic of the browser's adapter; asked once."""
        if subnormals not in self._found:
            self._found[subnormals] = arithmetic.chosen(self._probe, subnormals=subnormals)
        return self._found[subnormals]

    def differences(self, cases: Iterable[KernelCase]) -> Iterator[Difference]:
        """Differences of the browser from what is expected, one word of each buffer."""
        done, left = 0, iter(cases)
        while some := list(islice(left, AT_ONCE)):
            variants = self.arithmetic(any(case.subnormals for case in some)).variants
            for number, answer in enumerate(self._run(some, variants)):
                for binding, data in answer.items():
                    yield from compared(done + number, binding, some[number].expected[binding], data)
            done += len(some)

    def _probe(self, variants: Mapping[str, str]) -> bytes:
        inputs = [np.frombuffer(one, np.uint32) for one in arithmetic.operands()]
        out = np.zeros(arithmetic.result_bytes() // 4, np.uint32)
        grid = (-(-inputs[0].size // 64), 1, 1)
        case = KernelCase("wgsl/probe", {}, (*inputs, out), {4: out}, grid)
        return self._run([case], variants)[0][4]

    def _run(self, cases: Iterable[KernelCase], variants: Mapping[str, str]) -> list[dict[int, bytes]]:
        given = list(cases)
        answer = self._page.evaluate("cases => run(cases)", [_wire(case, variants) for case in given])
        if answer["error"]:
            raise BackendError(answer["error"].splitlines()[0])
        return [
            dict(zip(sorted(case.expected), map(base64.b64decode, texts), strict=True))
            for case, texts in zip(given, answer["answers"], strict=True)
        ]


def _wire(case: KernelCase, variants: Mapping[str, str]) -> dict[str, Any]:
    return {
        "source": shaders.source(case.kernel, case.consts, variants),
        "uniform": _text(case.uniform()),
        "inputs": [_text(np.ascontiguousarray(one).tobytes()) for one in case.inputs],
        "outputs": sorted(case.expected),
        "grid": list(case.grid),
    }


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


@contextmanager
def browser() -> Iterator[Browser]:
    """Open a browser; skip the test where there is none with an adapter."""
    program = shutil.which("chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    if program is None:
        pytest.skip("no Chromium on this machine")
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp())
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with playwright.sync_playwright() as play:
            opened = play.chromium.launch(executable_path=program, args=FLAGS)
            page = opened.new_page()
            page.set_default_timeout(SECONDS * 1000)
            page.goto(f"http://127.0.0.1:{server.server_port}/")
            page.wait_for_function("document.title == 'ready'")
            name = page.evaluate("start()")
            if not name:
                pytest.skip("this Chromium has no adapter of WebGPU")
            yield Browser(page, name)
            opened.close()
    finally:
        server.shutdown()
        server.server_close()
