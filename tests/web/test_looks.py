"""Widths, colours, keyboard and screen readers, of what the page in the browser adds to the server's."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from tests.server.page.acting import ask
from tests.server.page.test_looks import WIDTHS, axe
from tests.server.page.test_looks import faults as findings
from tests.web.acting import failed, fetched
from tests.web.serving import Faults

__all__ = ["axe"]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_the_window(
    opened: Any, url: str, axe: str, width: int, scheme: str, tmp_path: Path
) -> None:
    with opened(url) as page:
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        look = functools.partial(looked, page, axe, tmp_path)
        page.wait_for_selector("#fetch:not([hidden])")
        look("absent")
        fetched(page)
        ask(page, "code please")
        look("talking")
        page.click("#open-device")
        look("device")


def looked(page: Any, axe: str, folder: Path, name: str) -> None:
    """Take a picture, and find no faults."""
    page.screenshot(path=folder / f"{name}.png")
    assert findings(page, axe) == []
    wide = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide == 0


def test_a_fault_is_readable_on_a_phone(
    opened: Any, url: str, axe: str, faults: Faults, tmp_path: Path
) -> None:
    faults.missing = True
    with opened(url) as page:
        page.set_viewport_size({"width": 360, "height": 700})
        page.click("#fetch")
        failed(page)
        looked(page, axe, tmp_path, "failed")


def test_all_is_reached_by_keys_and_dialogs_give_the_focus_back(opened: Any, url: str) -> None:
    with opened(url) as page:
        page.wait_for_selector("#fetch:not([hidden])")
        page.focus("#text")
        page.keyboard.press("Shift+Tab")
        assert page.evaluate("() => document.activeElement.id") == "fetch"
        page.keyboard.press("Enter")
        page.wait_for_selector("html[data-model=ready]")
        page.focus("#open-device")
        page.keyboard.press("Enter")
        assert page.evaluate("() => document.activeElement.closest('dialog').id") == "device"
        page.keyboard.press("Escape")
        assert page.evaluate("() => document.activeElement.id") == "open-device"


def test_a_screen_reader_hears_how_far_the_model_is(opened: Any, url: str) -> None:
    with opened(url) as page:
        fetched(page)
        heard = page.locator("#announced p")
        heard.last.wait_for(state="attached")
        assert heard.all_text_contents()[0] == "The model is loading."
        page.get_by_text("The model is ready.").wait_for(state="attached")
