"""Steps that several tests of the page in the browser share."""

from __future__ import annotations

from typing import Any


def ready(page: Any) -> None:
    """Wait until the model is loaded."""
    page.wait_for_selector("html[data-model=ready]")


def fetched(page: Any) -> None:
    """Fetch the model, and wait until it is loaded."""
    page.click("#fetch")
    ready(page)


def failed(page: Any) -> str:
    """Wait until loading has failed; return the words about it."""
    page.wait_for_selector("html[data-model=failed]")
    return str(page.inner_text("#fetching-words"))


def reloaded(page: Any) -> None:
    page.reload()
    page.wait_for_selector("html[data-ready]")
