"""Tools of servers in a chat: questions, results, Ctrl-C, rounds, and one line about what cannot be."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import click
import pytest

from edgedec.cli.tool_calls import MOST_ROUNDS, ToolCalls
from edgedec.mcp.config import ServerCommand
from edgedec.mcp.servers import ToolServers
from edgedec.session.chat import Chat
from edgedec.session.message import ToolCall
from edgedec.session.reply import Settings
from edgedec.session.reply_syntax import ReplySyntax
from edgedec.text.template import ChatTemplate
from tests.cli.support import Home, assert_one_line, run
from tests.fixtures.ready import chat_of
from tests.session.parrot import load_parrot
from tests.session.test_tool_chat import QWEN
from tests.text.tool_calls.forms import FORMS

if TYPE_CHECKING:
    from edgedec.api import Model

SCRIPT = str(Path(__file__).parents[1] / "mcp" / "tool_server.py")


@dataclass
class Reply:
    """A reply that asks for calls."""

    tool_calls: tuple[ToolCall, ...] = ()
    cut: bool = False


@dataclass
class ScriptedChat:
    """A chat whose replies are known beforehand, and the results that it was given."""

    replies: list[Reply]
    results: list[str] = field(default_factory=list)
    last: Reply | None = None

    def tool_result(self, call: ToolCall, text: str) -> None:
        self.results.append(f"{call.id}: {text}")

    def next(self) -> None:
        self.last = self.replies.pop(0)


def call(tool: str, number: int = 1, /, **arguments: Any) -> ToolCall:
    return ToolCall(str(number), tool, json.dumps(arguments))


def carried_out(calls: ToolCalls, *replies: Reply) -> ScriptedChat:
    """Answer what the first reply asks for, and so on."""
    chat = ScriptedChat(list(replies))
    chat.next()
    calls.answer(cast("Chat", chat), chat.next)
    return chat


@pytest.fixture(scope="module")
def servers() -> Iterator[ToolServers]:
    command = ServerCommand("test", sys.executable, (SCRIPT,), allowed=frozenset({"variable"}))
    with ToolServers([command], pytest.fail) as servers:
        yield servers


class Answers:
    """A user's answers to the questions, in turn."""

    def __init__(self, *answers: str) -> None:
        self.left, self.asked = list(answers), 0

    def __call__(self, question: str) -> str:
        self.asked += 1
        answer = self.left.pop(0)
        if answer == "^C":
            raise click.Abort
        return answer


def test_each_call_is_shown_and_confirmed(servers: ToolServers, capsys: pytest.CaptureFixture[str]) -> None:
    answers = Answers("y", "n")
    two = Reply((call("add", 1, a=1, b=2), call("add", 2, a=3, b=4)))
    chat = carried_out(ToolCalls(servers, answers), two, Reply())
    assert chat.results == ["1: 3", "2: the user did not allow this call"]
    assert answers.asked == 2
    assert "calls add of test: a=1, b=2" in capsys.readouterr().err


def test_always_is_for_one_tool_and_the_rest_of_the_chat(servers: ToolServers) -> None:
    answers = Answers("a", "n")
    calls = ToolCalls(servers, answers)
    add = [Reply((call("add", number, a=number, b=0),)) for number in range(3)]
    assert carried_out(calls, *add, Reply()).results == ["0: 0", "1: 1", "2: 2"]
    refused = carried_out(calls, Reply((call("fail"),)), Reply()).results
    assert refused == ["1: the user did not allow this call"]
    assert answers.asked == 2


def test_without_a_terminal_only_allowed_tools_are_called(servers: ToolServers) -> None:
    asked = Reply((call("add", 1, a=1, b=1), call("variable", 2, name="NOTHING")))
    assert carried_out(ToolCalls(servers, None), asked, Reply()).results == [
        "1: the user did not allow this call",
        "2: none",
    ]


def test_wrong_calls_are_answers_to_the_model_and_nothing_is_called(servers: ToolServers) -> None:
    answers = Answers()
    asked = Reply(
        (call("nothing", 1), call("add", 2, a="x", b=1), ToolCall("3", "add", '{"a": 1,'), call("add", 4))
    )
    results = carried_out(ToolCalls(servers, answers), asked, Reply()).results
    assert results[0] == "1: there is no tool nothing"
    assert all("wrong arguments: " in one for one in results[1:])
    assert answers.asked == 0


def test_a_call_without_arguments_is_one_with_none(servers: ToolServers) -> None:
    """Models write no arguments as an empty text, as null, or not at all."""
    for text in ("", "null", "{}"):
        chat = carried_out(ToolCalls(servers, Answers("y")), Reply((ToolCall("1", "fail", text),)), Reply())
        assert "wrong arguments" not in chat.results[0], text


def test_ctrl_c_stops_the_calls_of_a_reply_and_leaves_the_chat_whole(servers: ToolServers) -> None:
    asked = Reply((call("add", 1, a=1, b=1), call("add", 2, a=2, b=2), call("add", 3, a=3, b=3)))
    chat = carried_out(ToolCalls(servers, Answers("y", "^C")), asked, Reply())
    assert chat.results == ["1: 2", "2: the user stopped this call", "3: the user stopped this call"]
    assert chat.last is asked


def test_a_model_that_calls_without_end_is_stopped(
    servers: ToolServers, capsys: pytest.CaptureFixture[str]
) -> None:
    again = [Reply((call("variable", number, name="X"),)) for number in range(MOST_ROUNDS + 5)]
    chat = carried_out(ToolCalls(servers, None), *again)
    assert len(chat.results) == MOST_ROUNDS
    assert "rounds of calls are enough" in capsys.readouterr().err


def test_names_of_a_model_do_not_reach_the_terminal_raw(
    servers: ToolServers, capsys: pytest.CaptureFixture[str]
) -> None:
    carried_out(ToolCalls(servers, None), Reply((call("\x1b[2Jbell\x07\nnext"),)), Reply())
    shown = capsys.readouterr().err
    assert "\x1b[2J" not in shown
    assert "\x07" not in shown


def test_what_cannot_be_is_one_line(home: Home, tmp_path: Path) -> None:
    home.install()
    given = ["chat", "smollm2-135m", "--mcp", str(tmp_path / "none.json")]
    assert_one_line(run(home.services(), *given, stdin="hi\n"), 3, "none.json cannot be read")
    (tmp_path / "empty.json").write_text("{}", encoding="utf-8")
    given[-1] = str(tmp_path / "empty.json")
    assert_one_line(run(home.services(), *given, stdin="hi\n"), 4, "names no servers")
    with_server = [*given, "--server", "http://127.0.0.1:1"]
    assert_one_line(run(home.services(), *with_server, stdin="hi\n"), 2, "for a model that runs here")


def bound_chat(folder: Path, servers: ToolServers, template: str) -> Chat:
    """A chat in which calls were bound, of a model with a chat template."""
    ready = load_parrot(folder, "Hello.", capacity=2000)
    calls = ToolCalls(servers, None)
    codec = replace(ready.loaded.codec, template=ChatTemplate(template, bos="", eos=""))
    chat = chat_of(ready, Settings(max_tokens=9))
    chat = Chat(chat.engine, codec, chat.settings, syntax=ReplySyntax(codec, tuple(calls.tools)))
    model = SimpleNamespace(make_room_for=ready.runner.make_room_for)
    calls.bind(cast("Model", model), chat)
    return chat


def test_calls_in_a_form_of_json_are_bound_silently(
    servers: ToolServers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = bound_chat(tmp_path, servers, QWEN)
    assert chat.syntax.bound
    assert capsys.readouterr().err == ""
    assert chat.reply("Hi").read() == "Hello."


def test_calls_in_another_form_are_free_and_a_line_says_so(
    servers: ToolServers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = bound_chat(tmp_path, servers, FORMS["gemma4"].template.source)
    assert not chat.syntax.bound
    assert "free: arguments are checked, not bound" in capsys.readouterr().err
