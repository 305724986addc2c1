"""A browser, and pages of a scripted server in it.

Their tests are `slow`, and skipped without Chromium and Playwright. They
need ``pip install playwright`` and a Chromium of the system; nothing is downloaded.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.server.page.scripted import Script

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A browser for all tests of a process."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def script() -> Script:
    """The faults that the server plays, and what it was asked."""
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    from tests.server.page.scripted import Script

    return Script()


@pytest.fixture
def url(script: Script) -> Iterator[str]:
    """The address of a scripted server."""
    from tests.server.page.scripted import serving

    with serving(script) as address:
        yield address


@pytest.fixture
def context(chromium: Any) -> Iterator[Any]:
    """A browser's profile, empty at first."""
    made = chromium.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    made.set_default_timeout(20_000)
    yield made
    made.close()


@pytest.fixture
def page(context: Any, url: str) -> Iterator[Any]:
    """The page, started; an exception in it or a breach of its policy fails the test."""
    made = context.new_page()
    faults: list[str] = []
    made.on("pageerror", lambda error: faults.append(str(error)))
    made.on(
        "console",
        lambda line: faults.append(line.text) if "Content Security Policy" in line.text else None,
    )
    made.goto(url)
    made.wait_for_selector("html[data-ready]")
    yield made
    assert faults == []
