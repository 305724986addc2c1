"""Take the picture of the page in the browser: ``python -m docs.record.web URL``, with ``edgedec web`` there.

Needs Playwright and a Chromium of the system, as the page's tests do.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from docs.record.page import OUTPUT, PATIENCE_MS

QUESTION = "Explain in three sentences why the sky is blue."
MOST_TOKENS = "120"


@click.command()
@click.argument("url")
@click.option("--to", default=OUTPUT, show_default=True, type=click.Path(path_type=Path), metavar="FOLDER")
def main(url: str, to: Path) -> None:
    """Take a picture of the page at URL after a reply."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 720}, color_scheme="light")
        page.goto(url)
        page.wait_for_selector("html[data-ready]")
        page.click("#fetch")
        page.wait_for_selector("html[data-model=ready]", timeout=PATIENCE_MS)
        page.click("#open-settings")
        page.fill("#sampling-temperature", "0")
        page.fill("#sampling-max_tokens", MOST_TOKENS)
        page.keyboard.press("Enter")
        page.fill("#text", QUESTION)
        page.press("#text", "Enter")
        page.wait_for_selector("#send:not([hidden])", timeout=PATIENCE_MS)
        page.mouse.move(0, 0)
        page.evaluate("() => document.activeElement.blur()")
        page.wait_for_timeout(1000)
        page.screenshot(path=to / "web.png")
        browser.close()


if __name__ == "__main__":
    main()
