"""Take the picture of the page in the browser: ``python -m docs.record.web URL``, with ``edgedec web`` there.

Needs Playwright and a Chromium of the system, as the page's tests do.
"""

from __future__ import annotations

from pathlib import Path

import click

from docs.record.page import OUTPUT, PATIENCE_MS, opened, take, talk

QUESTIONS = ("Explain in three sentences why the sky is blue.",)


@click.command()
@click.argument("url")
@click.option("--to", default=OUTPUT, show_default=True, type=click.Path(path_type=Path), metavar="FOLDER")
def main(url: str, to: Path) -> None:
    """Take a picture of the page at URL after a reply."""
    with opened(url) as page:
        page.click("#fetch")
        page.wait_for_selector("html[data-model=ready]", timeout=PATIENCE_MS)
        talk(page, QUESTIONS, 120)
        take(page, to / "web.png")


if __name__ == "__main__":
    main()
