from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from edgedec.cli import opening
from edgedec.models.catalogue import CATALOGUE
from tests.cli.support import Home, assert_one_line, run


def test_every_line_is_a_turn(home: Home) -> None:
    result = run(home.services(home.parrot("Hello.", "Bye.")), "chat", stdin="Hi\n\nSee you")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Hello.\nBye.\n", "")


def test_no_input_is_no_turn(home: Home) -> None:
    result = run(home.services(home.parrot()), "chat", stdin="")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_a_conversation_is_saved_and_loaded(home: Home) -> None:
    talk = home.path / "talk.json"
    model = home.parrot("Hello.", "Again.")
    drawn = ("--temperature", "0.5", "--seed", "3")
    first = run(home.services(model), "chat", *drawn, stdin=f"Hi\n/save {talk}\n")
    assert first.stderr == f"Saved 1 turn to {talk}.\n"
    document = json.loads(talk.read_bytes().splitlines()[1])
    assert [message["content"] for message in document["messages"]] == ["Hi", "Hello."]
    second = run(home.services(model), "chat", stdin=f"/load {talk}\nMore\n")
    assert second.stdout == "Again.\n"
    assert second.stderr == f"Loaded 1 turn from {talk} (temperature 0.5, seed 3).\n"


def test_reset_system_stats_help_and_quit(home: Home) -> None:
    lines = "/system|/system Be brief.|/system|Hi|/reset|Hi|/stats|/stats all|/help|/quit|Lost"
    result = run(home.services(home.parrot("Hello.")), "chat", stdin=lines.replace("|", "\n"))
    assert (result.exit_code, result.stdout) == (0, "Hello.\nHello.\n")
    said = result.stderr
    assert "System message: none\n" in said
    assert "System message set.\nSystem message: Be brief.\n" in said
    assert "replies   2," in said
    assert re.search(r"^kv_cache .* [kM]B$", said, re.MULTILINE)
    assert "drafts    off\n" in said
    assert "/load FILE" in said
    removed = run(home.services(home.parrot()), "chat", "--system", "Hm", stdin="/system -\n/system")
    assert removed.stderr.endswith("System message: none\n")


def test_a_base_model_names_its_sister_that_chats(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "gemma3-270m-it" in CATALOGUE
    monkeypatch.setattr(opening, "CATALOGUE", {"parrot-it": CATALOGUE["gemma3-270m-it"]})
    model = home.parrot(chat=False, speak=lambda context: context[-1])
    asked = run(home.services(model), "chat", stdin="z\n")
    assert_one_line(asked, 2, "parrot is a base model", "parrot-it was taught to chat; --raw")


def test_a_base_model_asks_for_raw_or_a_template(home: Home) -> None:
    model = home.parrot(chat=False, speak=lambda context: context[-1])
    asked = run(home.services(model), "chat", "--max-tokens", "2", stdin="z\n")
    assert_one_line(asked, 2, "parrot is a base model", "--raw", "--template FILE")
    result = run(home.services(model), "chat", "--raw", "--max-tokens", "2", stdin="z\n")
    assert (result.stdout, result.stderr) == ("zz\n", "")
    refused = run(home.services(model), "chat", "--raw", stdin="/system x\n")
    assert refused.exit_code == 2
    assert "parrot has no chat template, so no system message either" in refused.stderr


@pytest.mark.parametrize("chat", [False, True])
def test_a_template_from_a_file_comes_before_the_model_s_own(home: Home, tmp_path: Path, chat: bool) -> None:
    """In the end the model repeats the last character of its prompt, which the template says."""
    file = tmp_path / "template.jinja"
    file.write_text("{% for message in messages %}{{ message.content }}q{% endfor %}")
    model = home.parrot(chat=chat, speak=lambda context: context[-1])
    options = ("--template", str(file), "--max-tokens", "2")
    assert run(home.services(model), "chat", *options, stdin="z\n").stdout == "qq\n"
    assert run(home.services(model), "generate", *options, "-p", "z").stdout == "qq\n"


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"{% for %}", 4, "the chat template"),
        (b"{{ ''.__class__.__mro__ }}", 4, "the chat template"),
        (b"{% for i in range(10**9) %}x{% endfor %}", 4, "the chat template"),
        (b"\xff", 4, "is not UTF-8 text"),
        (b" \n", 4, "is empty"),
        (b"x" * 1_000_001, 4, "is too long"),
        (None, 3, "cannot be read"),
    ],
)
def test_a_template_from_a_file_is_not_trusted(
    home: Home, tmp_path: Path, content: bytes | None, status: int, words: str
) -> None:
    file = tmp_path / "template.jinja"
    if content is not None:
        file.write_bytes(content)
    result = run(home.services(home.parrot("Hello.")), "chat", "--template", str(file), stdin="Hi\n")
    assert_one_line(result, status, words)


def test_errors_end_a_pipe(home: Home) -> None:
    services = home.services(home.parrot("Hello."))
    assert_one_line(run(services, "chat", stdin="/frobnicate now\nHi\n"), 2, "unknown command /frobnicate")
    assert_one_line(run(services, "chat", stdin="/save\n"), 2, "/save needs the name of a file")
    assert_one_line(run(services, "chat", stdin=f"/load {home.path / 'none.json'}\n"), 3, "no such file")
    assert_one_line(run(services, "chat", stdin="word " * 1000), 8, "the context holds 400")
    assert_one_line(run(services, "chat", stdin=b"\xff\xfe\n"), 2, "line 1 of standard input is not")
    assert_one_line(run(services, "chat", "--threads", "0", stdin="Hi"), 2, "--threads")
    assert_one_line(run(services, "chat", "-m", "nothing", stdin="Hi"), 3, "nothing")


def test_a_turn_that_fails_prints_nothing(home: Home) -> None:
    result = run(home.services(home.parrot("Hello.")), "chat", stdin="Hi\n" + "word " * 1000)
    assert (result.exit_code, result.stdout) == (8, "Hello.\n")


def test_a_full_context(home: Home) -> None:
    """Old turns are dropped, in one line; or the chat stops, in one line."""
    letter = home.parrot().tokenizer.encode("a", add_bos=False)[0]
    services = home.services(home.parrot(speak=lambda context: letter))
    turns = "".join(f"{'abcdefgh'[turn] * 60}\n" for turn in range(8))
    dropped = run(services, "chat", "--max-tokens", "9", "--system", "Hm", stdin=turns)
    assert (dropped.exit_code, dropped.stdout) == (0, "aaaaaaaaa\n" * 8)
    lines = dropped.stderr.splitlines()
    assert 1 < len(lines) < 8
    told = r"context is full: dropped the oldest (turn|\d turns); the system message stays"
    assert all(re.fullmatch(told, line) for line in lines)
    stopped = run(services, "chat", "--max-tokens", "9", "--when-full", "stop", stdin=turns)
    assert (stopped.exit_code, len(stopped.stderr.splitlines())) == (8, 1)
    assert "tokens, and the context holds 400" in stopped.stderr


def test_arguments_that_are_no_text_are_refused(home: Home) -> None:
    result = run(home.services(home.parrot()), "chat", "--system", "b\udcff", stdin="Hi\n")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'--system': it is not UTF-8 text" in result.stderr


def test_a_line_that_begins_with_a_space_is_text(home: Home) -> None:
    assert run(home.services(home.parrot("A path.")), "chat", stdin=" /etc\n").stdout == "A path.\n"


def test_trace_can_be_switched(home: Home) -> None:
    lines = "/trace on\nHi\n/trace off\nHi\n/trace maybe\n"
    result = run(home.services(home.parrot("ab", "cd")), "chat", stdin=lines)
    assert result.stdout == "ab\ncd\n"
    said = result.stderr.splitlines()
    assert said[0] == "Trace on. Nothing is drafted: --draft auto."
    assert said[1].startswith("trace: ")
    assert said[1].replace("|", "") == "trace: ab"
    assert said[2].startswith("trace: ")
    assert said[2].endswith(" of the target")
    assert said[3:4] == ["Trace off."]
    assert "/trace is on or off" in said[4]
    assert len(said) == 5
