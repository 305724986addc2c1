"""Widths, colours, keyboard and screen readers."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.server.page.acting import ask, ended, growing

pytestmark = pytest.mark.slow

WIDTHS = (360, 768, 1280)
LONG = "averylongwordthatnobreakingrulewouldeversplit" * 6


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, from its package."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm, which brings axe-core, is not installed")
    folder = tmp_path_factory.mktemp("axe")
    command = [npm, "pack", "axe-core@4", "--silent"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=120)
    archives = list(Path(folder).glob("*.tgz"))
    if done.returncode or not archives:
        pytest.skip("axe-core cannot be had")
    with tarfile.open(archives[0]) as archive:
        source = archive.extractfile("package/axe.min.js")
        assert source is not None
        return source.read().decode()


def faults(page: Any, axe: str) -> list[str]:
    """Serious and critical findings of axe-core."""
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [
        f"{one['id']}: {node['html'][:120]} {node['failureSummary']}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_serious(page: Any, axe: str, width: int, scheme: str) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    look = functools.partial(faults, page, axe)
    assert look() == []
    for text in ("code please", "think", "up to the limit", "refuse"):
        ask(page, text)
    page.wait_for_selector(".code .k")
    assert look() == []
    page.click("#mark")
    assert look() == []
    page.click("#open-settings")
    assert look() == []
    page.keyboard.press("Escape")
    page.keyboard.press("Control+/")
    assert look() == []
    page.keyboard.press("Escape")
    if width < 900:
        page.click("#menu")
        assert look() == []


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_window(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    for text in (f"code {LONG}", LONG, "think"):
        ask(page, text)
    page.wait_for_selector(".code .k")
    for marked in (False, True):
        if marked:
            page.click("#mark")
        wide = page.evaluate(
            "[document.documentElement, document.getElementById('scroller')]"
            ".map(one => one.scrollWidth - one.clientWidth)"
        )
        assert wide == [0, 0]
    page.click("#open-settings")
    assert page.evaluate("document.getElementById('settings').scrollWidth") <= width


def test_fingers_find_the_buttons(page: Any) -> None:
    """Targets have 24 pixels or more each way."""
    page.set_viewport_size({"width": 360, "height": 700})
    ask(page, "up to the limit")
    small = page.evaluate(
        """[...document.querySelectorAll("button, select, summary")]
        .map(one => [one.id || one.textContent, one.getBoundingClientRect()])
        .filter(([, box]) => box.width && (box.width < 24 || box.height < 24)).map(([name]) => name)"""
    )
    assert small == []


def test_the_drawer_keeps_the_focus_and_gives_it_back(page: Any) -> None:
    page.set_viewport_size({"width": 360, "height": 700})
    page.locator("#new").wait_for(state="hidden")
    page.focus("#menu")
    page.keyboard.press("Enter")
    page.locator("#new").wait_for()
    assert page.evaluate("document.activeElement.id") == "new"
    for _ in range(12):
        page.keyboard.press("Tab")
        within = (
            "document.activeElement === document.body || document.activeElement.closest('#side') !== null"
        )
        assert page.evaluate(within)
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "menu"


def test_all_is_reached_by_keys_and_dialogs_give_the_focus_back(page: Any) -> None:
    assert page.evaluate("document.activeElement.id") == "text"
    page.keyboard.press("Control+,")
    assert page.evaluate("document.activeElement.closest('dialog').id") == "settings"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "text"
    page.keyboard.press("Control+/")
    assert page.locator("#shortcuts").is_visible()
    page.keyboard.press("Escape")
    ask(page, "hello")
    page.keyboard.press("Control+k")
    assert page.locator(".asked").count() == 0
    assert page.evaluate("document.activeElement.id") == "text"


def test_a_screen_reader_hears_sentences_and_the_end(page: Any, script: Any) -> None:
    script.pause_s = 0.02
    ask(page, "a story", ends=False)
    growing(page, "Sentence 20")
    heard = page.locator("#announced p")
    heard.first.wait_for(state="attached")
    assert heard.first.text_content().endswith(".")
    ended(page)
    page.wait_for_function(
        "() => [...document.querySelectorAll('#announced p')].at(-1).textContent == 'The reply is complete.'"
    )
    parts = heard.all_text_contents()
    assert len(parts) < 15
    assert " ".join(parts[:-1]).count("Sentence") == 40


def test_a_screen_reader_hears_the_rest_of_a_continued_reply_alone(page: Any) -> None:
    ask(page, "up to the limit")
    page.get_by_role("button", name="More").click()
    ended(page)
    heard = page.locator("#announced p").all_text_contents()
    assert heard == [
        "This reply ends before its",
        "The reply was cut.",
        "And this is the rest.",
        "The reply is complete.",
    ]


def test_a_reader_who_scrolled_up_is_left_there(page: Any, script: Any) -> None:
    page.set_viewport_size({"width": 360, "height": 500})
    script.pause_s = 0.02
    ask(page, "a story", ends=False)
    growing(page, "Sentence 15")
    page.evaluate("document.getElementById('scroller').scrollTop = 0")
    growing(page, "Sentence 20")
    assert page.evaluate("document.getElementById('scroller').scrollTop") < 20
    page.click("#to-end")
    ended(page)
    page.wait_for_timeout(300)
    away = "(one => one.scrollHeight - one.scrollTop - one.clientHeight)(document.getElementById('scroller'))"
    assert page.evaluate(away) < 5


def test_nothing_moves_where_motion_is_not_wanted(page: Any) -> None:
    page.emulate_media(reduced_motion="reduce")
    moving = """[...document.querySelectorAll("*")].filter(one => {
      const style = getComputedStyle(one);
      return style.animationName !== "none" || style.transitionDuration !== "0s";
    }).length"""
    assert page.evaluate(moving) == 0
