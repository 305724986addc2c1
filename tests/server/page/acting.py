"""Steps that several tests of the page share."""

from __future__ import annotations

from typing import Any


def ask(page: Any, text: str, *, ends: bool = True) -> None:
    """Send a message, and wait for the end of the reply."""
    page.fill("#text", text)
    page.press("#text", "Enter")
    if ends:
        ended(page)


def ended(page: Any) -> None:
    """Wait until no reply is in progress."""
    page.wait_for_selector("#send:not([hidden])")
    page.wait_for_function("() => !document.querySelector('.reply.running')")


def growing(page: Any, words: str) -> None:
    """Wait until the last reply has these words, and is still in progress."""
    page.wait_for_function(
        "words => [...document.querySelectorAll('.reply.running')].at(-1)?.innerText.includes(words)",
        arg=words,
    )


def replies(page: Any) -> list[str]:
    """The texts of the replies that are shown."""
    return [text.strip() for text in page.locator(".reply .body").all_inner_texts()]


def questions(page: Any) -> list[str]:
    return [text.strip() for text in page.locator(".asked").all_inner_texts()]


def last(page: Any, button: str) -> Any:
    """A button of the last reply."""
    return page.locator(".reply").last.get_by_role("button", name=button, exact=True)
