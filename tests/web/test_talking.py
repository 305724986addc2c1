"""Replies from the worker: streamed, stopped, continued, drawn again, and what is kept of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.page.acting import ask, ended, growing, last, replies
from tests.web.acting import fetched, ready, reloaded

pytestmark = pytest.mark.slow


@pytest.fixture
def page(opened: Any, url: str) -> Iterator[Any]:
    with opened(url) as made:
        fetched(made)
        yield made


def test_a_reply_comes_with_its_figures_and_what_was_drafted(page: Any) -> None:
    ask(page, "one two three")
    assert replies(page) == ["You said: one two three"]
    assert "5 tokens" in page.locator(".figures").inner_text()
    assert "2 tokens/pass" in page.locator(".figures").inner_text()
    page.click("#mark")
    drafted = page.locator(".drafted.source-1").all_inner_texts()
    assert "said: " in drafted
    assert "lookup" in page.locator("#legend").inner_text()


def test_markdown_is_rendered_and_html_stays_text(page: Any) -> None:
    ask(page, "code please")
    assert page.locator(".code pre").inner_text() == "def f(): return 1\n"
    assert page.locator("td.align-right").inner_text() == "2"
    assert page.locator(".body li strong").inner_text() == "two"
    ask(page, "hostile")
    assert '<script>document.title = "taken"</script>' in replies(page)[1]
    assert page.locator(".body script, .body img, .body [href^=javascript]").count() == 0
    assert page.locator(".body a").get_attribute("href") == "https://example.org/t.png"


def test_a_reply_is_stopped_and_goes_on(page: Any) -> None:
    ask(page, "a story", ends=False)
    growing(page, "Sentence 5 ")
    page.keyboard.press("Escape")
    ended(page)
    assert page.locator(".note").last.inner_text() == "You stopped the reply."
    before = replies(page)[0]
    assert "Sentence 40" not in before
    last(page, "More").click()
    ended(page)
    (whole,) = replies(page)
    assert whole.startswith(before)
    assert whole.endswith("Sentence 40 of a long story goes on here.")
    assert whole.count("Sentence") == 40


def test_a_cut_reply_goes_on_after_a_reload(page: Any) -> None:
    """The same seed and settings give the same tokens, so those that are there are passed over."""
    page.click("#open-settings")
    page.fill("#sampling-max_tokens", "12")
    page.keyboard.press("Enter")
    ask(page, "a story")
    (before,) = replies(page)
    assert page.locator(".note").inner_text() == "The reply reached the limit of its length."
    page.wait_for_selector("#conversations .current")
    reloaded(page)
    ready(page)
    last(page, "More").click()
    ended(page)
    (after,) = replies(page)
    assert after.startswith(before)
    assert len(after.split()) == 2 * len(before.split())


def test_the_page_answers_while_a_reply_is_computed(page: Any) -> None:
    ask(page, "a story", ends=False)
    growing(page, "Sentence 2 ")
    page.click("#open-device")
    assert page.locator("#device-facts").is_visible()
    page.keyboard.press("Escape")
    page.click("#new")
    ask(page, "hello")
    assert replies(page) == ["You said: hello"]


def test_a_question_is_edited_and_a_reply_drawn_again(page: Any) -> None:
    ask(page, "first")
    page.locator(".question").hover()
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Your message").fill("second")
    page.get_by_role("button", name="Send", exact=True).first.click()
    ended(page)
    assert replies(page) == ["You said: second"]
    last(page, "Retry").click()
    ended(page)
    assert "2 of 2" in page.locator(".reply .branches").inner_text()


def test_a_failure_is_one_line_and_the_next_question_is_answered(page: Any) -> None:
    ask(page, "fail please")
    assert page.locator(".note.error").inner_text() == "The engine failed as asked (ask something else)."
    ask(page, "hello")
    assert replies(page)[-1] == "You said: hello"


def test_settings_choose_what_computes(page: Any) -> None:
    assert page.inner_text("#device-words") == "CPU: WebGPU finds no GPU here"
    page.click("#open-device")
    page.select_option("#device-choice", "gpu")
    page.wait_for_selector("html[data-model=failed]")
    assert page.inner_text("#fetching-words") == "WebGPU finds no GPU here (compute on the CPU)."
    page.select_option("#device-choice", "cpu")
    ready(page)
    assert "chosen in the settings" in page.inner_text("#device-facts")
    page.uncheck("#draft")
    reloaded(page)
    ready(page)
    page.click("#open-device")
    assert not page.is_checked("#draft")
    assert page.input_value("#device-choice") == "cpu"
