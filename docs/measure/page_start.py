"""Seconds until a page shows a model's first text: ``python -P -m docs.measure.page_start ADDRESS``.

``edgedec web FOLDER`` serves the page and says its address. A first visit fetches the model, from this
machine; a later one has it. It takes Playwright and Chromium.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from typing import Any

from playwright.sync_api import sync_playwright

VISITS = 5
QUESTION = "Name three colours."
ARGUMENTS = ("--no-sandbox", "--headless=new", "--disable-gpu", "--disable-background-networking")
SHOWN = """() => [...document.querySelectorAll(".message.reply .body")].some((one) => one.innerText.trim())"""


def visit(context: Any, url: str, *, fetch: bool) -> tuple[float, float, float]:
    """Return the seconds to a loaded model and to its first text, and from the question to that."""
    page = context.new_page()
    begin = time.perf_counter()
    page.goto(url)
    if fetch:
        page.wait_for_selector("html[data-model=absent]")
        page.click("#fetch")
    page.wait_for_selector("html[data-model=ready]")
    loaded = time.perf_counter()
    page.fill("#text", QUESTION)
    page.press("#text", "Enter")
    asked = time.perf_counter()
    page.wait_for_function(SHOWN, polling=10)
    shown = time.perf_counter()
    page.close()
    return loaded - begin, shown - begin, shown - asked


def main(url: str) -> None:
    found: dict[str, list[tuple[float, float, float]]] = {"first visit": [], "later visit": []}
    with sync_playwright() as playwright:
        for _ in range(VISITS):
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=list(ARGUMENTS)
            )
            context = browser.new_context()
            for name, times in found.items():
                times.append(visit(context, url, fetch=name == "first visit"))
            browser.close()
    for name, times in found.items():
        loaded, shown, answered = (statistics.median(column) for column in zip(*times, strict=True))
        line = f"{name}: loaded {loaded:.2f} s, first text {shown:.2f} s, {answered:.2f} s after the question"
        print(line)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
