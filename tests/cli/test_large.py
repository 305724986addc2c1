"""``chat --large``: hard parts of a reply come from a server, and a lost one costs a line."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from edgedec.control import switching
from edgedec.control.switching import SwitchRule
from tests.cli.support import Home, assert_one_line, run
from tests.remote.server import DONE, event, says, serving
from tests.remote.test_side import MESSAGE


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the rule ask the large model from the first token on."""
    monkeypatch.setattr(switching, "DEFAULT_RULE", SwitchRule(-1, -1))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path / "home")
    found.path.mkdir()
    found.install()
    return found


def test_a_server_writes_the_reply(home: Home) -> None:
    with serving(says(MESSAGE)) as server:
        result = run(
            home.services(home.parrot("small text")),
            "chat", "--large", server.url, "--large-model", "large", stdin="Say something.\n",
        )  # fmt: skip
    assert (result.exit_code, result.stdout) == (0, "four\n"), result.output
    assert "the conversation is sent there" in result.stderr
    assert server.paths == ["/v1/chat/completions"]
    assert server.asked[0]["messages"][-1] == {"role": "user", "content": "Say something."}


def test_a_text_is_sent_as_it_stands(home: Home) -> None:
    with serving(says(event("large text", "stop"), DONE)) as server:
        result = run(
            home.services(home.parrot("small text")),
            "chat", "--raw", "--large", server.url, "--large-model", "large", "--temperature", "0.5",
            "--seed", "7", stdin="Say it:\n",
        )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert server.paths == ["/v1/completions"]
    assert server.asked[0]["prompt"] == "Say it:"
    assert (server.asked[0]["temperature"], server.asked[0]["seed"]) == (0.5, 7)


def test_a_lost_server_costs_a_line(home: Home) -> None:
    with serving(says(b"<html>", kind="text/html")) as server:
        result = run(
            home.services(home.parrot("small text")),
            "chat", "--large", server.url, "--large-model", "large", stdin="Say something.\n",
        )  # fmt: skip
    assert (result.exit_code, result.stdout) == (0, "small text\n"), result.output
    assert "127.0.0.1 sends text/html" in result.stderr


def test_an_address_where_nothing_answers_is_told_before_a_model_is_opened(home: Home) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]  # bound and not listening: connections are refused
        result = run(home.services(), "chat", "--large", f"http://127.0.0.1:{port}/v1", stdin="Hello")
    assert_one_line(result, 11, f"no server answers at 127.0.0.1, port {port}", "refused", "start it first")
    assert home.opened == []


def test_a_model_beside_itself_is_refused_in_one_line_before_it_is_opened(home: Home) -> None:
    result = run(home.services(), "generate", "-m", "smollm2-135m", "--switch", "smollm2-135m", "-p", "x")
    assert_one_line(result, 2, "smollm2-135m cannot take turns with itself", "smaller model")
    assert home.opened == []


def test_contradictions_are_one_line(home: Home) -> None:
    services = home.services(home.parrot("small text"))
    for args, words in (
        (("--large-model", "x"), "without --large"),
        (("--large", "http://127.0.0.1", "--switch", "x"), "leave one out"),
        (("--large", "ftp://x"), "is no address of a server"),
    ):
        assert_one_line(run(services, "chat", *args, stdin="x\n"), 2, words)
