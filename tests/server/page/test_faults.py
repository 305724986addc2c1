"""Faults of the server, said plainly; what was typed and what came stays."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.page.acting import ask, ended, growing, last, questions, replies

pytestmark = pytest.mark.slow


def test_a_busy_server_is_asked_again(page: Any, script: Any) -> None:
    script.busy = 2
    ask(page, "hello", ends=False)
    page.get_by_text("All slots are taken (try again in 1 s). Next attempt in").wait_for()
    ended(page)
    assert replies(page) == ["You said: hello"]
    assert len(script.seen) == 3


def test_a_wait_for_a_busy_server_can_be_ended_either_way(page: Any, script: Any) -> None:
    script.busy, script.retry_after = 1, 300
    ask(page, "hello", ends=False)
    last(page, "Try now").click()
    ended(page)
    assert replies(page) == ["You said: hello"]
    script.busy = 1
    ask(page, "again", ends=False)
    last(page, "Try now").wait_for()
    page.keyboard.press("Escape")
    ended(page)
    assert page.locator(".note").last.inner_text() == "You stopped the reply."
    last(page, "Try again").click()
    ended(page)
    assert replies(page)[-1] == "You said: again"


def test_a_refusal_is_said_and_another_question_takes_its_place(page: Any, script: Any) -> None:
    ask(page, "refuse this")
    assert page.locator(".note.error").inner_text().startswith("The conversation has 3,000 tokens;")
    ask(page, "hello")
    assert [one["content"] for one in script.seen[-1]["messages"]] == ["hello"]
    assert questions(page) == ["hello"]
    assert "2 of 2" in page.locator(".question .branches").inner_text()


def test_a_dropped_connection_keeps_what_came(page: Any) -> None:
    ask(page, "drop the connection")
    assert replies(page) == ["You said: drop"]
    assert page.locator(".note").inner_text() == "The connection was lost during the reply."
    assert last(page, "More").is_visible()


def test_a_server_that_is_gone_keeps_the_question(page: Any, context: Any) -> None:
    page.wait_for_selector("#model:enabled")
    context.set_offline(True)
    ask(page, "hello")
    assert page.locator(".note.error").inner_text() == "The server does not answer."
    page.locator("#gone").wait_for()
    page.fill("#text", "typed")
    context.set_offline(False)
    page.click("#again")
    page.locator("#gone").wait_for(state="hidden")
    last(page, "Try again").click()
    ended(page)
    assert replies(page) == ["You said: hello"]
    assert page.input_value("#text") == "typed"


def test_replies_are_rendered_when_a_server_is_back(page: Any, context: Any) -> None:
    ask(page, "code")
    page.wait_for_selector(".code")
    page.route("**/edgedec/markdown", lambda route: route.abort())
    page.reload()
    page.wait_for_selector(".body .plain")
    assert "def words(text: str)" in replies(page)[0]
    page.unroute("**/edgedec/markdown")
    context.set_offline(True)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.locator("#gone").wait_for()
    context.set_offline(False)
    page.click("#again")
    page.wait_for_selector(".code")


def test_a_key_is_asked_for_and_kept_for_the_tab(page: Any, context: Any, script: Any, url: str) -> None:
    script.key = "right"
    page.reload()
    page.wait_for_selector("#key[open]")
    page.fill("#key-field", "wrong")
    page.keyboard.press("Enter")
    page.get_by_text("The server does not take this key.").wait_for()
    page.fill("#key-field", "right")
    page.keyboard.press("Enter")
    page.wait_for_selector("#model:enabled")
    ask(page, "hello")
    assert replies(page) == ["You said: hello"]
    page.reload()
    page.wait_for_selector("#model:enabled")
    assert not page.locator("#key").is_visible()
    other = context.new_page()
    other.goto(url)
    other.wait_for_selector("#key[open]")


def test_a_reply_that_no_key_was_given_for_can_be_tried_again(page: Any, script: Any) -> None:
    page.wait_for_selector("#model:enabled")
    script.key = "right"
    ask(page, "hello", ends=False)
    page.wait_for_selector("#key[open]")
    page.keyboard.press("Escape")
    ended(page)
    assert page.locator(".note.error").inner_text() == "This server needs a key."
    last(page, "Try again").click()
    page.wait_for_selector("#key[open]")
    page.fill("#key-field", "right")
    page.keyboard.press("Enter")
    ended(page)
    assert replies(page) == ["You said: hello"]


def test_a_browser_without_a_database_says_so_and_talks(context: Any, url: str) -> None:
    page = context.new_page()
    page.add_init_script("indexedDB.open = () => { throw new Error('forbidden'); }")
    page.goto(url)
    page.get_by_text("This browser keeps no conversations here").first.wait_for()
    ask(page, "hello")
    assert replies(page) == ["You said: hello"]


def test_a_browser_without_any_storage_talks(context: Any, url: str) -> None:
    page = context.new_page()
    page.add_init_script(
        """for (const name of ["localStorage", "sessionStorage", "indexedDB"])
        Object.defineProperty(window, name, { get() { throw new DOMException("no", "SecurityError"); } });"""
    )
    page.goto(url)
    page.wait_for_selector("html[data-ready]")
    ask(page, "hello")
    assert replies(page) == ["You said: hello"]


def test_a_reply_goes_on_while_the_page_is_hidden(page: Any, script: Any) -> None:
    script.pause_s = 0.01
    ask(page, "a story", ends=False)
    growing(page, "Sentence 1")
    page.evaluate("Object.defineProperty(document, 'hidden', { value: true })")
    ended(page)
    page.wait_for_function("() => document.querySelector('.reply .body').innerText.includes('Sentence 40')")
