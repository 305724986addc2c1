"""Take the pictures of the chat page: ``python -m docs.record.page URL``, with a server at that address.

Needs Playwright and a Chromium of the system, as the page's tests do.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

OUTPUT = Path(__file__).parents[1]
QUESTIONS = (
    "Write a Python function that counts the vowels of a text.",
    "Rewrite it with type hints and a docstring.",
)
PATIENCE_MS = 600_000


@contextmanager
def opened(url: str) -> Iterator[Any]:
    """Yield the page at ``url``, ready, in a wide window with light colours."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 720}, color_scheme="light")
        page.goto(url)
        page.wait_for_selector("html[data-ready]")
        yield page
        browser.close()


def talk(page: Any, questions: Sequence[str], most_tokens: int) -> None:
    """Ask the questions, greedily, so that the pictures repeat."""
    page.click("#open-settings")
    page.fill("#sampling-temperature", "0")
    page.fill("#sampling-max_tokens", str(most_tokens))
    page.keyboard.press("Enter")
    for question in questions:
        page.fill("#text", question)
        page.press("#text", "Enter")
        page.wait_for_selector("#send:not([hidden])", timeout=PATIENCE_MS)
        page.wait_for_timeout(1000)


def take(page: Any, picture: Path) -> None:
    """Take a picture in which nothing is pointed at."""
    page.mouse.move(0, 0)
    page.evaluate("() => document.activeElement.blur()")
    page.wait_for_timeout(500)
    page.screenshot(path=picture)


@click.command()
@click.argument("url")
@click.option("--to", default=OUTPUT, show_default=True, type=click.Path(path_type=Path), metavar="FOLDER")
def main(url: str, to: Path) -> None:
    """Take pictures of the page at URL: a wide window, light; a phone, dark, with drafted tokens marked."""
    with opened(url) as page:
        page.wait_for_selector("#model:enabled")
        talk(page, QUESTIONS, 160)
        take(page, to / "page.png")
        page.set_viewport_size({"width": 390, "height": 720})
        page.emulate_media(color_scheme="dark")
        page.click("#mark")
        take(page, to / "page-phone.png")


if __name__ == "__main__":
    main()
