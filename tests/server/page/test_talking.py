"""Talking by the page: streaming, Markdown, stop, retry, edit, more, and a reload in the middle."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.page.acting import ask, ended, growing, last, questions, replies

STORY = "".join(f"Sentence {number} of a long story goes on here. " for number in range(1, 41))
"""A reply of the scripted server."""

pytestmark = pytest.mark.slow


def test_a_conversation_is_sent_whole_with_each_message(page: Any, script: Any) -> None:
    ask(page, "hello")
    ask(page, "and again")
    assert replies(page) == ["You said: hello", "You said: and again"]
    assert [one["content"] for one in script.seen[1]["messages"]] == ["hello", "You said: hello", "and again"]
    first = script.seen[0]
    assert first["stream"] is True
    assert first["model"] == "small-135m"
    assert first["edgedec"] == {"sources": True}
    assert first["seed"] != script.seen[1]["seed"]
    assert not {"temperature", "top_p", "max_tokens"} & set(first)


def test_a_reply_grows_before_the_eyes_and_enter_sends_nothing_meanwhile(page: Any, script: Any) -> None:
    script.pause_s = 0.05
    ask(page, "a story", ends=False)
    growing(page, "Sentence 3")
    assert "Sentence 40" not in replies(page)[0]
    page.fill("#text", "typed meanwhile")
    page.press("#text", "Enter")
    assert page.input_value("#text") == "typed meanwhile"
    assert len(script.seen) == 1
    page.keyboard.press("Escape")
    ended(page)


def test_a_line_is_begun_by_shift_enter(page: Any) -> None:
    page.fill("#text", "one")
    page.press("#text", "Shift+Enter")
    page.keyboard.type("two")
    page.press("#text", "Enter")
    ended(page)
    assert questions(page) == ["one\ntwo"]


def test_markdown_is_rendered_and_code_is_copied(page: Any, context: Any) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    ask(page, "code please")
    page.wait_for_selector(".code .k")
    assert page.locator(".code-head span").inner_text() == "python"
    assert page.locator(".body td.align-right").first.inner_text() == "2"
    link = page.locator(".body a")
    assert link.get_attribute("rel") == "noopener noreferrer"
    page.click(".copy-code")
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith("def words(text: str)")


def test_text_is_shown_before_it_is_rendered(page: Any, script: Any) -> None:
    script.pause_s = 0.02
    ask(page, "a story", ends=False)
    page.wait_for_selector(".reply .body p:not(.plain)")
    script.render_s = 3600.0
    page.wait_for_timeout(500)
    shown = replies(page)[0]
    page.wait_for_timeout(500)
    assert len(replies(page)[0]) > len(shown)
    assert " ".join(replies(page)[0].split()) in STORY
    script.render_s = 0.0
    page.reload()
    page.wait_for_selector(".reply .body p:not(.plain)")


def test_what_a_model_writes_runs_and_loads_nothing(page: Any) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    ask(page, "hostile")
    page.wait_for_selector(".body p:not(.plain)")
    assert "<script>" in replies(page)[0]
    assert page.locator(".body a[href^='javascript'], .body img, .body script").count() == 0
    assert page.title().startswith("hostile")
    assert not [url for url in asked if "example.org" in url or url.endswith("/x")]


def test_reasoning_is_folded(page: Any) -> None:
    ask(page, "think")
    assert replies(page) == ["Forty-two."]
    thought = page.locator(".thought")
    assert not thought.is_visible()
    page.click(".reasoning summary")
    assert thought.inner_text() == "The user wants a thought. Here it is."


@pytest.mark.parametrize("way", ["Escape", "button"])
def test_a_stopped_reply_keeps_what_came_and_frees_the_server(page: Any, script: Any, way: str) -> None:
    script.pause_s = 0.05
    ask(page, "a story", ends=False)
    growing(page, "Sentence 1")
    if way == "button":
        page.click("#stop")
    else:
        page.keyboard.press("Escape")
    ended(page)
    assert replies(page)[0].startswith("Sentence 1")
    assert page.locator(".note").inner_text() == "You stopped the reply."
    assert page.evaluate("document.activeElement.id") == "text"
    page.wait_for_timeout(300)
    assert script.cancelled == 1


def test_more_goes_on_with_a_reply_that_was_cut(page: Any, script: Any) -> None:
    ask(page, "up to the limit")
    assert page.locator(".note").inner_text() == "The reply reached the limit of its length."
    last(page, "More").click()
    ended(page)
    page.wait_for_function("() => document.querySelector('.reply .body').innerText.includes('the rest')")
    assert replies(page) == ["This reply ends before its And this is the rest."]
    again = script.seen[1]
    assert again["messages"][-1] == {"role": "assistant", "content": "This reply ends before its"}
    assert again["edgedec"] == {"sources": True, "continue": True}
    assert again["seed"] == script.seen[0]["seed"]
    assert last(page, "More").count() == 0


def test_only_the_last_reply_grows(page: Any) -> None:
    ask(page, "up to the limit")
    assert last(page, "More").count() == 1
    ask(page, "hello")
    assert page.get_by_role("button", name="More").count() == 0


def test_a_full_context_is_said_and_leaves_no_more_to_ask_for(page: Any) -> None:
    ask(page, "until it is full")
    assert page.locator(".note").inner_text() == "The context is full."
    assert last(page, "More").count() == 0


def test_a_retry_is_another_version_and_the_first_stays(page: Any, script: Any) -> None:
    ask(page, "hello")
    last(page, "Retry").click()
    ended(page)
    assert script.seen[0]["messages"] == script.seen[1]["messages"]
    assert script.seen[0]["seed"] != script.seen[1]["seed"]
    assert "2 of 2" in page.locator(".reply .branches").inner_text()
    page.get_by_role("button", name="Previous version").click()
    assert "1 of 2" in page.locator(".reply .branches").inner_text()


def test_an_edited_message_begins_a_branch(page: Any, script: Any) -> None:
    ask(page, "first")
    ask(page, "second")
    page.focus("#text")
    page.keyboard.press("ArrowUp")
    field = page.locator(".editing textarea")
    assert field.input_value() == "second"
    field.fill("changed")
    page.keyboard.press("Enter")
    ended(page)
    assert questions(page) == ["first", "changed"]
    assert [one["content"] for one in script.seen[2]["messages"]] == ["first", "You said: first", "changed"]
    page.get_by_role("button", name="Previous version").click()
    assert questions(page) == ["first", "second"]
    assert replies(page) == ["You said: first", "You said: second"]


def test_leaving_an_edit_changes_nothing(page: Any) -> None:
    ask(page, "first")
    page.locator(".question").hover()
    page.get_by_role("button", name="Edit").click()
    page.keyboard.type("something")
    page.keyboard.press("Escape")
    assert questions(page) == ["first"]


def test_a_reload_in_the_middle_keeps_what_came(page: Any, script: Any) -> None:
    script.pause_s = 0.05
    ask(page, "a story", ends=False)
    growing(page, "Sentence 2")
    page.fill("#text", "not sent yet")
    before = replies(page)[0]
    page.reload()
    page.wait_for_selector("html[data-ready]")
    page.wait_for_function("() => document.querySelector('.reply .note')?.innerText.includes('closed')")
    after = replies(page)[0]
    assert after.startswith("Sentence 1")
    assert len(after) >= len(before) - 60
    assert page.input_value("#text") == "not sent yet"
    script.pause_s = 0.0
    last(page, "More").click()
    ended(page)
    page.wait_for_function("() => document.querySelector('.reply .body').innerText.includes('the rest')")
    assert replies(page)[0].startswith(after)


def test_drafted_tokens_are_marked_by_pattern_and_title(page: Any) -> None:
    ask(page, "one two three four five six")
    page.keyboard.press("Control+.")
    assert page.locator(".tokens").inner_text() == "You said: one two three four five six"
    marked = page.locator(".tokens .drafted")
    assert marked.first.get_attribute("title") == "drafted by lookup"
    styles = page.evaluate(
        """[1, 2, 3, 4].map(n => document.querySelector(`.tokens .source-${n}`))
        .map(one => getComputedStyle(one).textDecorationStyle)"""
    )
    assert len(set(styles)) == 4
    legend = page.locator("#legend li").all_inner_texts()
    assert legend[0] == "lookup 25 %"
    assert legend[-1] == "the model itself 38 %"
    page.click("#mark")
    assert not page.locator(".tokens").is_visible()


def test_figures_stand_below_a_reply(page: Any) -> None:
    ask(page, "hello")
    figures = page.locator(".figures")
    assert figures.inner_text() == "3 tokens · 41.3 tokens/s · 1.8 tokens/pass · 0.031 J/token (estimated)"
    assert figures.get_attribute("title").startswith("31 tokens of prompt, 12 of them cached")
    assert page.locator("#memory-words").inner_text() == "Memory 412 MB of 600 MB"
    assert page.locator("#memory").get_attribute("aria-valuenow") == "69"
