"""The last turn of a conversation that goes on, and the word about one that is not saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.cli.window.recall import last_turn
from edgedec.session.message import Message
from tests.cli.emulator import Emulator
from tests.cli.window.test_chat_view import CTRL_D, chat_of, ready, said, typed

NOT_SAVED = "Not saved: /save FILE keeps the conversation, /quit once more leaves it."


def test_the_last_turn_is_shown_and_long_ones_are_cut() -> None:
    turn = [Message("user", "Why?"), Message("assistant", "So.\x1b[2J")]
    assert list(last_turn([Message("user", "Hi"), Message("assistant", "Hello."), *turn])) == [
        "> Why?",
        "So.[2J",
    ]
    long = "\n".join(map(str, range(50)))
    shown = list(last_turn([Message("user", long), Message("assistant", long)]))
    assert shown == ["> 0", *map(str, range(1, 8)), "...", "...", *map(str, range(42, 50))]
    assert [len(line) for line in last_turn([Message("user", "x" * 900)])] == [602, 3]
    assert list(last_turn([Message("system", "Be brief.")])) == []


def test_a_session_that_goes_on_shows_its_last_turn(tmp_path: Path) -> None:
    options = ("--session", str(tmp_path / "talk"))
    said(Emulator(chat_of(tmp_path / "a", "Hello there.", options=options)), "Hi")
    lines = said(Emulator(chat_of(tmp_path / "b", options=options)))
    at = next(at for at, line in enumerate(lines) if line.startswith("continuing"))
    end = "\n".join(lines[at:])
    assert "\n> Hi\nHello there.\n" in end + "\n"


@pytest.mark.parametrize("kept", [False, True])
def test_leaving_says_once_that_the_conversation_is_not_saved(tmp_path: Path, kept: bool) -> None:
    turns = ["Hi", *([f"/save {tmp_path / 'talk'}"] if kept else []), "/quit"]
    options = ("--session", str(tmp_path / "kept")) if kept else ()
    chat = Emulator(chat_of(tmp_path, "One.", "Two.", options=options))
    for number, turn in enumerate(turns, 1):
        typed(chat, number, turn + "\r")
    if not kept:
        ready(chat, len(turns) + 1)
        assert NOT_SAVED in chat.lines()
        chat.type("/quit\r")
    assert chat.finish() == 0
    assert chat.lines().count(NOT_SAVED) == (0 if kept else 1)


def test_nothing_said_is_nothing_lost(tmp_path: Path) -> None:
    chat = Emulator(chat_of(tmp_path, "One."))
    typed(chat, 1, "/bye\r")
    assert chat.finish() == 0
    assert CTRL_D.decode() not in chat.lines()
