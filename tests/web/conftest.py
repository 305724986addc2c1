"""Browsers with and without WebGPU, and folders that are served to them.

Their tests are `slow`, and skipped as ``tests/server/page/conftest.py`` says.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from edgedec.bundle.manifest import Manifest
from tests.fixtures.tiny_models import tiny_bundle
from tests.server.page.conftest import FLAGS
from tests.web.played import played_folder
from tests.web.serving import Faults, serving

WEBGPU = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")
Opened = Callable[..., AbstractContextManager[Any]]


@pytest.fixture(scope="session")
def browsers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[bool], Any]]:
    """Start a browser with or without a GPU, once each."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("there is no Chromium")
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    with playwright.sync_playwright() as driver:
        found: dict[bool, Any] = {}

        def browser(gpu: bool) -> Any:
            if gpu not in found:
                flags = [
                    *(one for one in FLAGS if not gpu or one != "--disable-gpu"),
                    *(WEBGPU if gpu else ()),
                ]
                found[gpu] = driver.chromium.launch(executable_path=path, args=flags)
            return found[gpu]

        yield browser
        for one in found.values():
            one.close()


@pytest.fixture
def opened(browsers: Callable[[bool], Any]) -> Opened:
    """Open a profile and a page of an address; exceptions, and requests to other origins, fail the test."""

    @contextmanager
    def with_page(
        url: str, *, gpu: bool = False, device: str | None = None, **settings: Any
    ) -> Iterator[Any]:
        context = browsers(gpu).new_context(viewport={"width": 1280, "height": 800}, **settings)
        context.set_default_timeout(30_000)
        if device:
            # A blank page has no storage.
            context.add_init_script(
                f"try {{ localStorage.setItem('edgedec.device', '{device}') }} catch {{}}"
            )
        faults: list[str] = []
        watched(context, url, faults)
        page = context.new_page()
        page.goto(url)
        page.wait_for_selector("html[data-ready]")
        yield page
        context.close()
        assert faults == []

    return with_page


def watched(context: Any, url: str, faults: list[str]) -> None:
    """Note what must not happen."""
    context.on(
        "request",
        lambda one: None if one.url.startswith((url, "data:", "blob:")) else faults.append(one.url),
    )
    context.on("weberror", lambda one: faults.append(str(one.error)))
    context.on(
        "console",
        lambda line: faults.append(line.text) if "Content Security Policy" in line.text else None,
    )


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with random weights."""
    return tiny_bundle(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def folder(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose engine is played."""
    return played_folder(tmp_path_factory.mktemp("web"), Manifest.load(tiny))


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def url(folder: Path, faults: Faults) -> Iterator[str]:
    """The address of that folder, behind a server that plays ``faults``."""
    with serving(folder, faults) as address:
        yield address
