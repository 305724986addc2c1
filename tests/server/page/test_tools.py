"""Tools on the page: each call is shown, confirmed and answered, by a real tool server."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgedec.mcp.config import ServerCommand
from edgedec.mcp.servers import ToolServers
from tests.server.fakes import FakeHub, running
from tests.server.page.acting import ask, ended, last, replies

pytestmark = pytest.mark.slow

SCRIPT = str(Path(__file__).parents[2] / "mcp" / "tool_server.py")


class CallingHub(FakeHub):
    """A model that calls the tool that it is asked for, and then says the result."""

    def submit(self, request: Any) -> Any:
        newest = request.messages[-1]
        if newest.role == "tool":
            self.words = (f"It is {newest.content}.",)
        elif newest.content.startswith("{") and request.tools:
            self.words = ("I call. ", f"<tool_call>\n{newest.content}\n</tool_call>")
        else:
            self.words = ("Plain.",)
        return super().submit(request)


@pytest.fixture
def hub() -> CallingHub:
    return CallingHub()


@pytest.fixture
def url(hub: CallingHub) -> Iterator[str]:
    command = ServerCommand("test", sys.executable, (SCRIPT,), allowed=frozenset({"variable"}))
    with ToolServers([command], pytest.fail) as tools, running(hub, tools=tools) as server:
        yield server.url


def wanted(tool: str, **arguments: Any) -> str:
    return json.dumps({"name": tool, "arguments": arguments})


def test_a_call_is_shown_with_its_arguments_and_made_when_the_person_says_so(
    page: Any, hub: CallingHub
) -> None:
    ask(page, wanted("add", a=2, b=40), ends=False)
    last(page, "Call it").wait_for()
    assert page.locator(".call .given").inner_text() == '{"a": 2, "b": 40}'
    assert len(hub.asked) == 1
    last(page, "Call it").click()
    ended(page)
    assert replies(page) == ["It is 42."]
    assert page.locator(".call summary").inner_text() == "add of test was called"
    sent = hub.asked[1].messages
    assert [one.role for one in sent] == ["user", "assistant", "tool"]
    assert sent[1].content == "I call."
    assert [(one.name, one.arguments) for one in sent[1].tool_calls] == [("add", '{"a": 2, "b": 40}')]
    ask(page, "and now?")
    assert [one.role for one in hub.asked[2].messages] == ["user", "assistant", "tool", "assistant", "user"]


def test_a_refused_call_is_not_made_and_the_model_hears_it(page: Any, hub: CallingHub) -> None:
    ask(page, wanted("add", a=2, b=40), ends=False)
    last(page, "Refuse").click()
    ended(page)
    assert replies(page) == ["It is the user did not allow this call."]


def test_always_holds_for_one_tool_of_one_chat_and_a_file_may_allow_one(page: Any) -> None:
    ask(page, wanted("add", a=1, b=1), ends=False)
    last(page, "Always in this chat").click()
    ended(page)
    ask(page, wanted("add", a=2, b=2))
    ask(page, wanted("variable", name="NOTHING"))
    assert replies(page) == ["It is 2.", "It is 4.", "It is none."]


def test_stop_while_a_call_waits_or_runs_ends_the_reply_and_it_goes_on_later(
    page: Any, hub: CallingHub
) -> None:
    ask(page, wanted("add", a=1, b=1), ends=False)
    last(page, "Call it").wait_for()
    page.keyboard.press("Escape")
    ended(page)
    assert len(hub.asked) == 1
    ask(page, wanted("sleep", seconds=20), ends=False)
    last(page, "Call it").click()
    page.wait_for_function("() => document.body.innerText.includes('is called…')")
    page.keyboard.press("Escape")
    ended(page)
    assert "You stopped the reply." in page.locator(".note").last.inner_text()
    last(page, "More").click()
    ended(page)
    assert replies(page)[-1] == "It is the user stopped this call."


def test_a_conversation_with_calls_is_kept_and_hostile_text_stays_text(page: Any) -> None:
    ask(page, wanted("variable", name="<img src=x onerror=\"document.title='taken'\">"))
    page.reload()
    page.wait_for_selector("html[data-ready]")
    page.wait_for_selector(".call")
    assert "<img" in page.locator(".call .given").text_content()
    assert page.title() != "taken"
    assert page.locator(".call img").count() == 0


def test_a_model_that_takes_no_tools_answers_without_them_and_a_line_says_so(
    page: Any, hub: CallingHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgedec.core.errors import UnsupportedError

    submit = hub.submit

    def without(request: Any) -> Any:
        if request.tools:
            raise UnsupportedError("the chat template of this model knows no tools")
        return submit(request)

    monkeypatch.setattr(hub, "submit", without)
    ask(page, "hello")
    assert replies(page) == ["Plain."]
    assert "Asked without tools. The chat template of this model knows no tools." in page.inner_text(
        "#notice"
    )
