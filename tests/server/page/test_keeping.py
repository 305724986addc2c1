"""Conversations that the browser keeps, and the settings of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.server.page.acting import ask, ended, growing, questions, replies

pytestmark = pytest.mark.slow


def titles(page: Any) -> list[str]:
    page.wait_for_timeout(300)
    return [text.strip() for text in page.locator("#conversations .open").all_inner_texts()]


def test_conversations_are_listed_and_opened_again(page: Any) -> None:
    ask(page, "about cats")
    page.click("#new")
    ask(page, "about dogs")
    assert titles(page) == ["about dogs", "about cats"]
    page.get_by_role("button", name="about cats").click()
    page.locator(".asked", has_text="about cats").wait_for()
    assert questions(page) == ["about cats"]
    page.reload()
    page.wait_for_selector(".asked")
    assert questions(page) == ["about cats"]
    assert page.title() == "about cats - EdgeDec"


def test_a_reply_goes_on_while_another_conversation_is_open(page: Any, script: Any) -> None:
    script.pause_s = 0.01
    ask(page, "a story", ends=False)
    growing(page, "Sentence 2")
    page.click("#new")
    assert page.locator("#send").is_visible()
    ask(page, "hello")
    page.get_by_role("button", name="a story").click()
    ended(page)
    page.wait_for_function("() => document.querySelector('.reply .body').innerText.includes('Sentence 40')")


def test_a_conversation_is_renamed_and_deleted(page: Any) -> None:
    ask(page, "about cats")
    page.get_by_role("button", name="Rename").click()
    page.fill("#ask-field", "Felines")
    page.keyboard.press("Enter")
    assert titles(page) == ["Felines"]
    page.get_by_role("button", name="Delete").click()
    page.keyboard.press("Escape")
    assert titles(page) == ["Felines"]
    page.get_by_role("button", name="Delete").click()
    page.click("#ask-yes")
    assert titles(page) == []
    assert questions(page) == []


def test_conversations_go_to_a_file_and_come_back(page: Any, tmp_path: Path) -> None:
    ask(page, "about cats")
    page.click("#new")
    ask(page, "about dogs")
    titles(page)
    with page.expect_download() as one:
        page.get_by_role("button", name="Export", exact=True).click()
    assert one.value.suggested_filename == "about-dogs.json"
    with page.expect_download() as every:
        page.click("#export-all")
    path = tmp_path / "all.json"
    every.value.save_as(path)
    assert len(json.loads(path.read_text(encoding="utf-8"))["conversations"]) == 2
    page.set_input_files("#import-file", path)
    page.get_by_text("2 conversations were imported.", exact=True).first.wait_for()
    assert sorted(titles(page)) == ["about cats", "about cats", "about dogs", "about dogs"]
    path.write_text("{}", encoding="utf-8")
    page.set_input_files("#import-file", path)
    page.get_by_text("not exported from this page").first.wait_for()


def test_two_tabs_with_one_conversation_lose_nothing(page: Any, context: Any, url: str) -> None:
    ask(page, "first")
    titles(page)
    other = context.new_page()
    other.goto(url)
    other.wait_for_selector("html[data-ready]")
    other.get_by_role("button", name="first", exact=True).click()
    other.wait_for_selector(".asked")
    ask(other, "from the other tab")
    page.wait_for_function("() => document.querySelectorAll('.asked').length == 2")
    assert questions(page) == ["first", "from the other tab"]


def test_tabs_that_do_not_hear_of_each_other_keep_a_copy(page: Any, context: Any, url: str) -> None:
    ask(page, "first")
    titles(page)
    other = context.new_page()
    other.add_init_script("delete window.BroadcastChannel")
    other.goto(url)
    other.wait_for_selector("html[data-ready]")
    other.get_by_role("button", name="first", exact=True).click()
    other.wait_for_selector(".asked")
    ask(page, "here")
    ask(other, "there")
    other.get_by_role("button", name="first (copy)", exact=True).wait_for()
    assert questions(other) == ["first", "there"]
    page.reload()
    page.wait_for_selector(".asked")
    assert questions(page) == ["first", "here"]
    assert sorted(titles(page)) == ["first", "first (copy)"]


def test_a_model_is_chosen_and_stays_with_the_conversation(page: Any, script: Any) -> None:
    page.wait_for_selector("#model:enabled")
    assert page.locator("#model option").all_inner_texts() == [
        "small-135m",
        "coder-1.5b (loads at first use)",
    ]
    page.select_option("#model", "coder-1.5b")
    ask(page, "hello")
    assert script.seen[0]["model"] == "coder-1.5b"
    page.reload()
    page.wait_for_selector(".asked")
    page.wait_for_function("() => document.getElementById('model').value == 'coder-1.5b'")


def test_a_model_that_is_loading_is_said(page: Any, script: Any) -> None:
    page.wait_for_selector("#model:enabled")
    page.select_option("#model", "coder-1.5b")
    script.wait_s = 1.0
    ask(page, "hello", ends=False)
    page.get_by_text("Loading coder-1.5b…", exact=True).wait_for()
    ended(page)
    assert replies(page) == ["You said: hello"]


def test_settings_hold_for_a_conversation_and_empty_ones_are_not_sent(page: Any, script: Any) -> None:
    page.click("#open-settings")
    assert page.locator("#sampling-temperature").get_attribute("placeholder") == "0.2"
    page.fill("#system", "Be brief.")
    page.fill("#sampling-temperature", "0.5")
    page.fill("#sampling-seed", "7")
    page.fill("#sampling-top_p", "3")
    page.get_by_role("button", name="Save").click()
    assert page.locator("#settings-fault").inner_text() == "Top-p takes a number above 0 and at most 1."
    assert page.evaluate("document.activeElement.id") == "sampling-top_p"
    page.fill("#sampling-top_p", "")
    page.keyboard.press("Enter")
    ask(page, "hello")
    sent = script.seen[0]
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (sent["temperature"], sent["seed"]) == (0.5, 7)
    assert not {"top_p", "top_k", "min_p", "max_tokens"} & set(sent)
    page.click("#new")
    ask(page, "hello")
    assert "temperature" not in script.seen[1]


def test_settings_can_hold_for_conversations_to_come(page: Any, script: Any) -> None:
    page.click("#open-settings")
    page.fill("#sampling-max_tokens", "50")
    page.check("#for-all")
    page.get_by_role("button", name="Save").click()
    page.click("#new")
    ask(page, "hello")
    assert script.seen[0]["max_tokens"] == 50


def test_the_theme_is_switched_and_kept(page: Any) -> None:
    page.click("#theme")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.locator("#theme").inner_text() == "Theme: dark"


def test_the_page_sets_no_cookies(page: Any, context: Any) -> None:
    ask(page, "hello")
    assert context.cookies() == []
