"""The model on its way into the browser: asked for, cut, resumed, damaged, without room, deleted."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from edgedec.bundle.web_folder import PIECE
from tests.server.page.acting import ask, replies
from tests.web.acting import failed, fetched, ready, reloaded
from tests.web.serving import Faults

pytestmark = pytest.mark.slow

WEIGHTS = 2 * PIECE + 4321


def test_a_model_is_fetched_when_asked_for_and_is_there_after_a_reload(
    opened: Any, url: str, faults: Faults
) -> None:
    with opened(url) as page:
        page.get_by_text("It is fetched once, and kept in this browser.").wait_for()
        assert faults.sent == 0
        fetched(page)
        ask(page, "hello")
        reloaded(page)
        ready(page)
        assert replies(page) == ["You said: hello"]
        ask(page, "again")
        assert replies(page) == ["You said: hello", "You said: again"]
        assert faults.sent == WEIGHTS


def test_a_question_fetches_the_model(opened: Any, url: str) -> None:
    with opened(url) as page:
        ask(page, "hello")
        assert replies(page) == ["You said: hello"]


def test_a_cut_connection_goes_on_where_it_stopped(opened: Any, url: str, faults: Faults) -> None:
    faults.cut_after, faults.cuts = PIECE + 1000, 2
    with opened(url) as page:
        fetched(page)
    ranges = [asked for name, asked in faults.asked if name == faults.name]
    first, *later = (int(asked.removeprefix("bytes=").split("-")[0] or 0) for asked in ranges)
    assert (first, len(later)) == (0, 2)
    assert PIECE // 2 < later[0] < later[1]


def test_a_server_without_ranges_serves_too(opened: Any, url: str, faults: Faults) -> None:
    faults.cut_after, faults.cuts, faults.ranges = PIECE + 1000, 1, False
    with opened(url) as page:
        fetched(page)
    assert faults.sent == PIECE + 1000 + WEIGHTS


def test_a_closed_page_goes_on_at_the_next_visit(opened: Any, url: str, faults: Faults) -> None:
    faults.stalled = threading.Event()
    with opened(url) as page:
        page.click("#fetch")
        page.wait_for_function("() => document.getElementById('fetching-bar').value > 0.45")
        reloaded(page)
        faults.stalled.set()
        fetched(page)
    (last,) = [asked for name, asked in faults.asked if name == faults.name][1:]
    assert last == f"bytes={PIECE}-{WEIGHTS - 1}"


def test_fetching_can_be_stopped_and_goes_on(opened: Any, url: str, faults: Faults) -> None:
    faults.stalled = threading.Event()
    with opened(url) as page:
        page.click("#fetch")
        page.wait_for_function("() => document.getElementById('fetching-bar').value > 0.45")
        page.click("#cancel-fetch")
        page.wait_for_selector("html[data-model=absent]")
        faults.stalled.set()
        assert "takes 4 MB" in page.inner_text("#fetching-words")
        fetched(page)


def test_a_byte_that_changed_on_its_way_is_fetched_again(opened: Any, url: str, faults: Faults) -> None:
    faults.changed = 1
    with opened(url) as page:
        fetched(page)


def test_a_wrong_file_is_refused_and_the_next_one_taken(opened: Any, url: str, faults: Faults) -> None:
    faults.changed = 2
    with opened(url) as page:
        page.click("#fetch")
        said = failed(page)
        assert said.startswith("model/weights.bin is not the file that this page was made with")
        assert "copy the whole folder to the server again" in said
        page.get_by_role("button", name="Try again").click()
        ready(page)


def test_a_missing_file_is_said(opened: Any, url: str, faults: Faults) -> None:
    faults.missing = True
    with opened(url) as page:
        page.click("#fetch")
        assert failed(page).startswith("weights.bin cannot be fetched: the server answered 404")


def test_a_damaged_copy_is_fetched_again(opened: Any, url: str, faults: Faults) -> None:
    with opened(url) as page:
        fetched(page)
        page.evaluate(
            """async (piece) => {
              const root = await navigator.storage.getDirectory();
              for await (const folder of root.values()) {
                for await (const file of folder.values()) {
                  if ((await file.getFile()).size < 2 * piece) continue;
                  const stream = await file.createWritable({ keepExistingData: true });
                  const data = new Uint8Array([1, 2, 3, 4]);
                  await stream.write({ type: "write", position: piece + 7, data });
                  await stream.close();
                }
              }
            }""",
            PIECE,
        )
        reloaded(page)
        ready(page)
    assert faults.sent == WEIGHTS + WEIGHTS - PIECE


def test_without_room_the_model_is_not_kept_and_runs(opened: Any, url: str, faults: Faults) -> None:
    with opened(url) as page:
        session = page.context.new_cdp_session(page)
        session.send("Storage.overrideQuotaForOrigin", {"origin": url.rstrip("/"), "quotaSize": PIECE})
        fetched(page)
        page.get_by_text("it is fetched at each visit").first.wait_for(state="attached")
        ask(page, "hello")
        assert replies(page) == ["You said: hello"]
        reloaded(page)
        page.get_by_text("takes 8 MB").wait_for()


def test_two_tabs_fetch_the_model_once(opened: Any, url: str, faults: Faults) -> None:
    faults.stalled = threading.Event()
    with opened(url) as page:
        other = page.context.new_page()
        other.goto(url)
        page.click("#fetch")
        page.wait_for_function("() => document.getElementById('fetching-bar').value > 0.45")
        other.click("#fetch")
        other.get_by_text("Another tab of this page loads the model").wait_for()
        faults.stalled.set()
        ready(page)
        ready(other)
    assert faults.sent == WEIGHTS


def test_the_model_can_be_deleted_and_conversations_stay(opened: Any, url: str, faults: Faults) -> None:
    with opened(url) as page:
        ask(page, "hello")
        page.click("#open-device")
        page.get_by_role("button", name="Delete the model", exact=True).click()
        page.click("#ask-yes")
        page.get_by_text("It is fetched once, and kept in this browser.").wait_for()
        assert replies(page) == ["You said: hello"]
        reloaded(page)
        page.get_by_text("takes 8 MB").wait_for()
        fetched(page)
    assert faults.sent == 2 * WEIGHTS
