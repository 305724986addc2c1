"""Whole chats in a terminal emulator: what a user sees at 60, 80 and 120 columns."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.emulator import Emulator
from tests.cli.window.test_flow import CODE, REPLY
from tests.fixtures.nightly import every

READY = b"\x1b[?2004h"
STATUS = re.compile(r"\[[\d.]+ s, [\d.]+ tokens/s( \| .*)?\]")
CTRL_C, CTRL_D = b"\x03", b"\x04"


def chat_of(
    folder: Path, *replies: str, options: tuple[str, ...] = (), wait_s: float = 0.0
) -> Callable[[], None]:
    """``edgedec chat`` with a parrot that takes ``wait_s`` for each token."""
    given = json.dumps({"replies": replies, "wait_s": wait_s})
    command = [sys.executable, "-m", "tests.cli.window.parrot_chat", str(folder), given, *options]
    return lambda: os.execv(sys.executable, command)


def ready(chat: Emulator, times: int) -> None:
    """Wait until the prompt has come so often."""
    deadline = time.monotonic() + 120
    while chat.raw.count(READY) < times:
        assert time.monotonic() < deadline, "\n".join(chat.lines())
        chat.read()
    chat.read(0.2)


def typed(chat: Emulator, times: int, text: str | bytes) -> None:
    """Type ``text`` at the prompt that comes as the ``times``-th."""
    ready(chat, times)
    chat.type(text)


def left(chat: Emulator, times: int = 0) -> None:
    """Leave the prompt that comes as the ``times``-th; 0: the one that is there, whatever is typed."""
    typed(chat, times, CTRL_D if times else CTRL_C + CTRL_D)
    assert chat.finish() == 0


def leaves(chat: Emulator) -> bool:
    """Whether Ctrl-D ends it. A plain prompt loses what is typed while it comes."""
    chat.type(CTRL_D)
    return not chat.read()


def said(chat: Emulator, *turns: str) -> list[str]:
    """Type the turns, leave, and return the lines of the terminal."""
    for number, turn in enumerate(turns, 1):
        typed(chat, number, turn + "\r")
    left(chat, len(turns) + 1)
    return chat.lines()


@pytest.mark.parametrize("columns", every(3, [80, 60, 120]))
def test_a_reply_is_rendered_and_its_status_line_is_one_line(tmp_path: Path, columns: int) -> None:
    lines = said(Emulator(chat_of(tmp_path, REPLY), columns), "Hi")
    assert sum(bool(STATUS.fullmatch(line)) for line in lines) == 1
    text = "\n".join(lines)
    assert "Title" in lines
    assert "**" not in text
    assert "```" not in text
    at = lines.index("import os")
    shown = "".join(line.ljust(columns) if len(line) == columns else line + "\n" for line in lines[at:])
    expected = "\n".join(line.rstrip() for line in CODE[:5])
    assert shown.startswith(expected)
    assert "你好世界" in text.replace(" ", "")


@pytest.mark.parametrize("columns", every(3, [40, 10, 24, 60]))
def test_the_status_line_never_wraps(tmp_path: Path, columns: int) -> None:
    chat = Emulator(chat_of(tmp_path, "one two three", options=("--max-tokens", "4")), columns)
    lines = said(chat, "Hi")
    status = [line for line in lines if re.match(r"\[?\d+\.\d s", line)]
    assert len(status) == 1
    assert len(status[0]) < columns
    if columns >= 40:
        assert status[0].endswith("/more]" if columns < 60 else "/more continues]")


def test_more_goes_on_where_the_reply_was_cut(tmp_path: Path) -> None:
    reply = "Some words.\n```\nfirst\nsecond\n```\n"
    chat = Emulator(chat_of(tmp_path, reply, options=("--max-tokens", "18")))
    lines = said(chat, "Hi", "/set max-tokens off", "/more")
    at = lines.index("> /more")
    assert lines[at + 1 :][:2] != ["Some words.", ""]
    assert "second" in lines[at:]


def test_ctrl_c_in_the_middle_of_code_leaves_a_clean_screen(tmp_path: Path) -> None:
    code = "```python\n" + "x = 1  # a comment\n" * 200
    chat = Emulator(chat_of(tmp_path, code, wait_s=0.01), 60)
    typed(chat, 1, "Hi\r")
    chat.wait_for("x = 1  # a comment")
    chat.type(CTRL_C)
    left(chat, 2)
    lines = chat.lines()
    stopped = [at for at, line in enumerate(lines) if line.endswith("| stopped]")]
    assert stopped, "\n".join(lines)
    shown = [line for line in lines[1 : stopped[0]] if not line.startswith("> ") and line.strip("─")]
    assert all("x = 1  # a comment".startswith(line.strip()) for line in shown)
    assert "^C" not in "\n".join(lines)


@pytest.mark.parametrize(("choice", "shown"), [("fold", False), ("show", True)])
def test_thinking_is_folded_or_stays(tmp_path: Path, choice: str, shown: bool) -> None:
    reply = "<think>\nThe user greets me. I greet back.\n</think>\n\nHello **you**."
    lines = said(Emulator(chat_of(tmp_path, reply, wait_s=0.01)), f"/set think {choice}", "Hi", "/think")
    before = lines[: lines.index("> /think")]
    assert ("The user greets me. I greet back." in before) is shown
    folded = re.compile(r"thought for [\d.]+ s, \d+ tokens; /think shows it")
    assert any(folded.fullmatch(line) for line in before) is not shown
    assert "Hello you." in before
    assert not [line for line in lines if "think>" in line]
    assert "The user greets me. I greet back." in lines[lines.index("> /think") :]


@pytest.mark.slow
def test_a_window_that_becomes_narrower_loses_no_word(tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(150)]
    chat = Emulator(chat_of(tmp_path, " ".join(words), wait_s=0.004), 80)
    typed(chat, 1, "Hi\r")
    for columns, word in ((50, "word20"), (100, "word50"), (40, "word80")):
        chat.wait_for(word)
        chat.resize(columns, 24)
    left(chat, 2)
    text = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", chat.raw).decode()
    assert all(re.search(rf"{word}\b", text) for word in words[-40:])


def test_keys_that_are_typed_meanwhile_are_not_shown_in_the_reply(tmp_path: Path) -> None:
    chat = Emulator(chat_of(tmp_path, "word " * 100, "Again.", wait_s=0.005))
    typed(chat, 1, "Hi\r")
    chat.wait_for("word word")
    chat.type("zzz")
    ready(chat, 2)
    chat.wait_for("> zzz")
    assert "zzz" not in "\n".join(line for line in chat.lines() if not line.startswith("> "))
    left(chat)


def test_ctrl_c_keeps_what_was_typed_meanwhile(tmp_path: Path) -> None:
    chat = Emulator(chat_of(tmp_path, "word " * 400, wait_s=0.01))
    typed(chat, 1, "Hi\r")
    chat.wait_for("word word")
    chat.type("and then")
    chat.read(0.3)
    chat.type(CTRL_C)
    ready(chat, 2)
    chat.wait_for("> and then")
    assert "stopped]" in "\n".join(chat.lines())
    left(chat)


@pytest.mark.parametrize("variables", every(2, [{"TERM": "dumb"}, {}]))
def test_plain_text_on_request(tmp_path: Path, variables: dict[str, str]) -> None:
    turns = ["Hi"] if variables else ["/set markdown off", "Hi"]
    chat = Emulator(chat_of(tmp_path, "**bold** `code`"), **variables)
    if variables:
        chat.wait_for(">")
        chat.type("Hi\r")
        chat.wait_for("**bold** `code`")
        chat.wait_until(lambda: chat.lines()[-1] == ">", "second prompt")
        chat.wait_until(lambda: leaves(chat), "end")
        assert chat.finish() == 0
    else:
        assert "**bold** `code`" in said(chat, *turns)


def test_no_colour_is_heeded(tmp_path: Path) -> None:
    chat = Emulator(chat_of(tmp_path, "**bold** `code`\n```python\nimport os\n```"), NO_COLOR="1")
    lines = said(chat, "Hi")
    assert "bold `code`" in lines
    reply = chat.raw[chat.raw.index(b"bold") :].split(READY)[0]
    assert not re.search(rb"\x1b\[[0-9;]*3[0-9]", reply)


def test_tab_completes_and_three_quotes_hold_many_lines(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("some notes")
    chat = Emulator(chat_of(tmp_path, "One.", "Two."))
    typed(chat, 1, "/sta\t\r")
    chat.wait_for("memory ")
    typed(chat, 2, "/set temp\t 0\r")
    chat.wait_for("temperature 0")
    typed(chat, 3, f"/file {tmp_path}/no\t\r")
    chat.wait_for("notes.txt, ")
    typed(chat, 4, '"""\rfirst\rsecond"""\r')
    chat.wait_for("One.")
    typed(chat, 5, "/edit\r")
    ready(chat, 6)
    lines = chat.lines()
    assert any("first" in line for line in lines[-8:])
    left(chat)


@pytest.mark.parametrize("setting", every(2, ["/set markdown off", "/trace on"]))
def test_keys_are_not_shown_in_plain_replies_either(tmp_path: Path, setting: str) -> None:
    chat = Emulator(chat_of(tmp_path, "word " * 60, wait_s=0.005))
    typed(chat, 1, setting + "\r")
    typed(chat, 2, "Hi\r")
    chat.wait_for("word word")
    chat.type("zzz")
    ready(chat, 3)
    chat.wait_for("> zzz")
    assert "zzz" not in "\n".join(line for line in chat.lines() if not line.startswith("> "))
    left(chat)


def test_the_arrow_key_of_an_empty_history_says_what_keeps_one(tmp_path: Path) -> None:
    chat = Emulator(chat_of(tmp_path, "One."))
    typed(chat, 1, "\x1b[A")
    chat.wait_for("`edgedec chat --history` keeps what you type")
    chat.type("Hi\r")
    typed(chat, 3, "\x1b[A")
    chat.wait_until(lambda: chat.lines().count("> Hi") == 2, "the turn again")
    assert sum("--history" in line for line in chat.lines()) == 1
    left(chat)


@pytest.mark.parametrize("columns", every(3, [40, 80, 120]))
def test_no_word_is_broken_at_any_width(tmp_path: Path, columns: int) -> None:
    reply = (
        "| River | Length in kilometres | Countries that it flows through | Sea |\n|:--|--:|---|---|\n"
        "| Danube | 2850 | Germany, Austria, Hungary, Serbia, Romania | Black Sea |\n"
    )
    chat = Emulator(chat_of(tmp_path, reply), columns, 60)
    lines = said(chat, "Hi", "/stats", "/stats all", "/help", "/set")
    words = set(" ".join(lines).split())
    expected = "Countries Germany, Hungary, helps sampling greedy replies context memory top-n-sigma,"
    assert set(f"{expected} repetition-penalty, temperature kv_cache speed-up".split()) <= words
    assert {"kilometres", "kilometres:"} & words
    assert max(map(len, lines)) <= columns
    at = lines.index("> /stats")
    five = lines[at + 1 : lines.index("> /stats all")]
    names = ["sampling", "replies", "context", "memory", "drafts"]
    assert [line.split()[0] for line in five if line[0] != " "] == names
    assert len(five) == 5 or columns == 40
