"""``chat --server``: the messages go to a running server, and nothing is loaded here."""

from __future__ import annotations

import json

import pytest

from tests.cli.support import Home, run
from tests.remote.server import DONE, MODEL, Handler, says, serving


def message(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return b"data: " + json.dumps({"model": MODEL, "choices": [choice]}).encode() + b"\n\n"


WHOLE = says(message("four"), message(" score", "stop"), DONE)
CUT = says(message("four"), message("", "length"), DONE)
LISTED = says(json.dumps({"data": [{"id": MODEL, "owned_by": "edgedec"}]}).encode(), kind="application/json")


def test_a_prompt_is_answered_by_the_server(home: Home) -> None:
    with serving(LISTED, WHOLE) as server:
        done = run(
            home.services(),
            "run",
            "--server",
            server.url,
            "--temperature",
            "0",
            "--no-think",
            "Count the years",
        )
    assert done.exit_code == 0, done.output
    assert done.stdout == "four score\n"
    assert server.paths == ["/v1/models", "/v1/chat/completions"]
    asked = server.asked[0]
    assert asked["messages"] == [{"role": "user", "content": "Count the years"}]
    assert asked["temperature"] == 0
    assert asked["chat_template_kwargs"] == {"enable_thinking": False}
    assert "seed" not in asked
    assert "max_tokens" not in asked
    assert list(home.path.iterdir()) == []


def test_the_second_turn_has_the_first_before_it(home: Home) -> None:
    with serving(WHOLE) as server:
        done = run(
            home.services(), "chat", MODEL, "--server", server.url, "--system", "Be short.",
            stdin="One\nTwo\n",
        )  # fmt: skip
    assert done.stdout == "four score\nfour score\n"
    assert [one["role"] for one in server.asked[1]["messages"]] == ["system", "user", "assistant", "user"]
    assert server.asked[1]["messages"][2]["content"] == "four score"


def test_a_reply_that_was_cut_goes_on(home: Home) -> None:
    with serving(CUT, LISTED, says(message(" score", "stop"), DONE)) as server:
        done = run(home.services(), "chat", MODEL, "--server", server.url, stdin="One\n/more\n")
    assert done.exit_code == 0, done.output
    assert done.stdout == "four\n score\n"
    assert server.asked[1]["edgedec"] == {"continue": True}
    assert server.asked[1]["messages"][-1] == {"role": "assistant", "content": "four"}


def test_a_system_message_keeps_the_turns_there_too(home: Home) -> None:
    with serving(WHOLE) as server:
        lines = "One\n/system Be short.\nTwo\n/system\n/reset\nThree\n"
        done = run(home.services(), "chat", MODEL, "--server", server.url, stdin=lines)
    asked = [[(one["role"], one["content"]) for one in body["messages"]] for body in server.asked]
    system, turn = ("system", "Be short."), [("user", "One"), ("assistant", "four score")]
    assert asked == [turn[:1], [system, *turn, ("user", "Two")], [system, ("user", "Three")]]
    assert done.stderr == "System message set.\nSystem message: Be short.\nThe conversation starts over.\n"


def test_a_command_that_a_server_s_model_lacks_is_one_line(home: Home) -> None:
    with serving(WHOLE) as server:
        for typed, words in (("/stats", "is not for a server's model"), ("/retri", "did you mean /retry")):
            done = run(home.services(), "chat", MODEL, "--server", server.url, stdin=f"{typed}\n")
            assert done.exit_code == 2
            assert words in done.stderr


def test_a_reply_is_asked_for_again(home: Home) -> None:
    with serving(WHOLE) as server:
        run(home.services(), "chat", MODEL, "--server", server.url, stdin="One\n/retry\n")
    assert server.asked[0]["messages"] == server.asked[1]["messages"]


def test_a_server_that_breaks_off_is_one_line(home: Home) -> None:
    def breaks(handler: Handler) -> None:
        handler.begin()
        handler.wfile.write(message("four"))

    with serving(breaks) as server:
        done = run(home.services(), "run", MODEL, "--server", server.url, "Count")
    assert done.exit_code == 11
    assert done.stdout == "four\n"
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("option", [("--memory", "300MB"), ("--session", "talk"), ("--draft", "off")])
def test_options_of_a_model_in_this_process_are_refused(home: Home, option: tuple[str, str]) -> None:
    done = run(home.services(), "chat", "--server", "http://127.0.0.1:9/v1", *option, "Hello")
    assert done.exit_code == 2
    assert f"{option[0]} is about a model of this process" in done.stderr


def test_a_server_that_is_not_there_is_told_at_once(home: Home) -> None:
    done = run(home.services(), "chat", "--server", "http://127.0.0.1:9/v1", "Hello")
    assert done.exit_code == 11
    assert "no server answers at 127.0.0.1" in done.stderr
