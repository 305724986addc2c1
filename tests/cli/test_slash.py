"""Commands inside a chat, in a pipe."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from edgedec.backends.fake import MarkovForward
from edgedec.cli.slash import table
from edgedec.cli.slash.stats import depth_words
from edgedec.cli.terminal import unquoted
from edgedec.control.tally import Count, Tally
from tests.cli.support import Home, run
from tests.fixtures.ready import ready_of


def said(
    home: Home, *lines: str, replies: tuple[str, ...] = ("One.", "Two."), options: tuple[str, ...] = ()
) -> str:
    """Standard error of a chat in which these lines were typed; its replies come first, each on a line."""
    result = run(home.services(home.parrot(*replies)), "chat", *options, stdin="\n".join(lines))
    return f"{result.stdout}--\n{result.stderr}"


def test_set_shows_and_changes_values(home: Home) -> None:
    shown = said(
        home, "/set", "/set temperature 0.7", "/set top-p", "/set max-tokens 5", "/set max-tokens off"
    )
    assert "temperature         0\n" in shown
    assert "think               fold\n" in shown
    assert "temperature 0.7\n" in shown
    assert "top-p 1 (keep the most probable" in shown
    assert "max-tokens 5\nmax-tokens off\n" in shown


def test_a_value_that_is_set_is_used(home: Home) -> None:
    assert said(home, "/set max-tokens 1", "Hi", replies=("Hello you.",)).startswith("H")
    shown = said(Home(home.path / "other"), "/set temperature 0.5", "/set seed 7", "/stats")
    assert "sampling  temperature 0.5, seed 7\n" in shown


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/set temperature warm", "temperature cannot be warm (it is a number)"),
        ("/set temperature -1", "temperature cannot be -1.0 (it must be 0 (greedy) or more)"),
        ("/set top-k 1.5", "top-k cannot be 1.5 (it is a whole number)"),
        ("/set top-p 2", "top-p cannot be 2.0 (it must be above 0 and at most 1 (off))"),
        ("/set seed x", "seed cannot be x (it is a whole number)"),
        ("/set max-tokens 0", "max-tokens cannot be 0 (it is a whole number above 0, or off)"),
        ("/set warmth 1", "there is no setting warmth (/set knows temperature, top-k,"),
        ("/set think loudly", "loudly is not one of its values (they are fold and show)"),
        ("/more", "there is no reply to continue"),
        ("/retry", "there is no turn to take back"),
        ("/edit", "/edit needs a terminal"),
        ("/think", "the last reply has no thinking part"),
        ("/think loudly", "/think cannot be loudly (it is on or off"),
        ("/think off", "the model's chat template cannot turn thinking off"),
        (
            "/file",
            "/file needs the name of a file (put a text file into the next message (- takes all out),"
            " as in /file notes.txt)",
        ),
        ("/save", "/save needs the name of a file (save the conversation and its cache, as in /save talk)"),
        ("/copy", "unknown command /copy (the terminal copies what you mark, and /save FILE writes"),
        ("/retri", "unknown command /retri (did you mean /retry"),
        ("/zzz", "unknown command /zzz (/help lists them; begin with a space"),
        ("/file none.txt", "none.txt cannot be read (No such file or directory)"),
        ("/file .", ". is a folder"),
        ("/file /dev/null", "/dev/null is no file"),
        ("/model nothing", "no model named nothing"),
    ],
)
def test_errors_are_one_line(home: Home, line: str, words: str) -> None:
    shown = said(home, line).split("--\n")[1].splitlines()
    assert len(shown) == 1
    assert shown[0].startswith(f"error: {words}")


def test_more_continues_a_reply_that_was_cut(home: Home) -> None:
    shown = said(home, "Hi", "/more", replies=("Hello you there.",), options=("--max-tokens", "2"))
    first, second, *_ = shown.splitlines()
    assert "Hello you there.".startswith(first + second)


def test_retry_answers_again_and_draws_another_seed(home: Home) -> None:
    shown = said(home, "/set temperature 0.9", "/set seed 3", "Hi", "/retry", "/stats")
    assert shown.startswith("One.\nOne.\n--")
    assert "seed 3\n" in shown.split("--\n")[1]
    assert "temperature 0.9, seed 3\n" not in shown


def test_stats_have_a_line_for_each_drafter_and_the_predicted_speed(home: Home) -> None:
    parrot = home.parrot()
    model = ready_of(MarkovForward(vocab_size=parrot.tokenizer.size, capacity=400), parrot.codec)
    lines = "Hi\nWhy?\n/stats all"
    shown = run(home.services(model), "chat", "--temperature", "0", "--max-tokens", "60", stdin=lines).stderr
    lookup = re.search(r"^ {10}lookup: (\d+) queries, [\d.]+ ms \([\d.]+% of the time\)", shown, re.M)
    assert lookup
    assert int(lookup[1]) > 0
    assert re.search(r"^ {10}recycling: .* fed, \d+ right$", shown, re.M)
    predicted = r"^ {10}predicted [\d.]+ tok/s, [\d.]+ times plain decoding; measured [\d.]+ tok/s$"
    assert re.search(predicted, shown, re.M)


def test_stats_have_the_share_of_right_tokens_by_depth() -> None:
    tally = Tally(by_depth=[Count(4, 3), Count(3, 1), Count(0, 0)])
    assert list(depth_words(tally)) == ["right by depth: 75%, 33%"]
    assert list(depth_words(Tally())) == []


@pytest.mark.parametrize("name", ["/exit", "/bye", "/quit"])
def test_every_name_of_quit_quits(home: Home, name: str) -> None:
    assert said(home, "Hi", name, "Lost") == "One.\n--\n"


@pytest.mark.parametrize("name", ["regenerate", "regen", "again"])
def test_the_names_that_other_programs_have_for_retry(home: Home, name: str) -> None:
    assert said(home, "Hi", f"/{name}") == "One.\nOne.\n--\n"


@pytest.mark.parametrize("line", ["/system Be brief.", "/set system Be brief."])
def test_a_system_message_keeps_the_turns(home: Home, tmp_path: Path, line: str) -> None:
    shown = said(
        home, "Hi", line, "More", f"/save {tmp_path / 'talk'}", "/system -", f"/save {tmp_path / 'b'}"
    )
    assert shown.startswith("One.\nTwo.\n--\n")
    assert "System message set; the conversation is read again with the next message." in shown
    turns = [("user", "Hi"), ("assistant", "One."), ("user", "More"), ("assistant", "Two.")]
    assert contents(tmp_path / "talk") == [("system", "Be brief."), *turns]
    assert contents(tmp_path / "b") == turns


def contents(talk: Path) -> list[tuple[str, str]]:
    """Roles and texts of a saved session."""
    return [
        (one["role"], one["content"]) for one in json.loads(talk.read_bytes().splitlines()[1])["messages"]
    ]


def test_clear_is_reset(home: Home) -> None:
    assert said(home, "Hi", "/clear", "Hi") == "One.\nOne.\n--\nThe conversation starts over.\n"


def test_a_file_goes_with_the_next_turn(home: Home, tmp_path: Path) -> None:
    notes, talk = tmp_path / "notes.md", tmp_path / "talk"
    notes.write_text("use ```x```\n")
    shown = said(home, f"/file {notes}", "Explain.", f"/save {talk}")
    assert "notes.md, " in shown
    content = talk.read_text("utf-8", "replace")
    assert "notes.md:\\n````\\nuse ```x```\\n````\\n\\nExplain." in content


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe\x00", "is no text in UTF-8 (byte 0)"),
        (b"a\0b", "is no text: it has zero bytes"),
        (b" \n", "is empty"),
        (b"word " * 5000, "is too long, and the context holds 400"),
        (b"x" * 5_000_000, "too much for a turn"),
    ],
)
def test_a_file_that_is_no_text_or_too_long_is_refused(
    home: Home, tmp_path: Path, content: bytes, words: str
) -> None:
    (tmp_path / "file").write_bytes(content)
    assert words in said(home, f"/file {tmp_path / 'file'}")


def test_another_model_keeps_the_messages(home: Home, tmp_path: Path) -> None:
    home.install("other")
    shown = said(home, "Hi", "/model other", "More", f"/save {tmp_path / 'talk'}", "/model nothing", "Lost")
    assert shown.startswith("One.\nTwo.\n--")
    assert "The conversation goes on; it is read again" in shown
    assert "Saved 2 turns" in shown
    assert [one["bundle"].name for one in home.opened] == ["smollm2-135m", "other"]


def test_help_lists_every_command(home: Home) -> None:
    shown = said(home, "/help")
    assert all(f"/{name} " in shown for name in table.COMMANDS)


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ('"""a\nb"""', "a\nb"),
        ('"""\na\n"""', "a"),
        ('"""doc"""\ncode', '"""doc"""\ncode'),
        ("a", "a"),
        ('""""""', ""),
    ],
)
def test_three_quotes_enclose_a_turn(typed: str, text: str) -> None:
    assert unquoted(typed) == text
