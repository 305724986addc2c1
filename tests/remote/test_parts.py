"""The parts of the remote side that need no server: pieces, keys, models, repetition."""

from __future__ import annotations

import json

import pytest

from edgedec.remote.address import KEY_VARIABLE, ServerAddress
from edgedec.remote.completions import Endpoint, NoCompletion, TextPiece
from edgedec.remote.continuing import NoEcho, NoKey, Repeats

ODD = [None, True, 7, "", "x", [], [1], {}, {"content": 1}, {"text": "x"}]


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("field", ["model", "choices", "choice", "text", "delta", "finish_reason", "error"])
def test_any_json_is_a_piece_or_refused(field: str, chat: bool) -> None:
    for odd in ODD:
        choice = {"text": "x", "delta": {"content": "x"}, "finish_reason": None} | {field: odd}
        answer = {"model": "large", "choices": [odd if field == "choice" else choice]} | {field: odd}
        try:
            found = Endpoint("large", chat).read(json.dumps(answer))
        except NoCompletion:
            continue
        assert found is None or isinstance(found.text, str)


def read(model: str, found: str) -> TextPiece | None:
    return Endpoint(model).read(json.dumps({"model": found, "choices": [{"text": "x"}]}))


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("gpt-5", "gpt-5"),
        ("gpt-5", "gpt-5-2026-08-06"),
        ("qwen.gguf", "/models/qwen.gguf"),
        ("/models/qwen.gguf", "qwen.gguf"),
        ("org/qwen", "org/qwen"),
    ],
)
def test_a_model_is_known_by_its_name_its_file_and_a_dated_version(asked: str, found: str) -> None:
    assert read(asked, found) == TextPiece("x")


@pytest.mark.parametrize(("asked", "found"), [("gpt-5", "gpt-5-mini"), ("a/b", "a/c"), ("b", "B"), ("b", "")])
def test_another_model_is_refused(asked: str, found: str) -> None:
    with pytest.raises(NoCompletion, match="model"):
        read(asked, found)


def test_counts_of_tokens_are_no_text() -> None:
    assert Endpoint("m").read('{"model": "m", "choices": [], "usage": {"total_tokens": 7}}') is None


PROMPT = "The quick brown fox jumps over the lazy dog. " * 4


def test_a_text_that_begins_like_its_prompt_is_held_until_it_differs() -> None:
    echo = NoEcho(PROMPT)
    assert [echo.passed(piece) for piece in ("The quick", " brown", " cat", " The")] == [
        "", "", "The quick brown cat", " The",
    ]  # fmt: skip
    assert echo.rest() == ""


def test_a_short_reply_that_begins_like_its_prompt_is_given_at_its_end() -> None:
    echo = NoEcho(PROMPT)
    assert echo.passed("The quick") == ""
    assert echo.rest() == "The quick"


@pytest.mark.parametrize("width", [1, 7, 500])
def test_a_repeated_prompt_is_no_continuation(width: int) -> None:
    echo = NoEcho(PROMPT)
    pieces = [PROMPT[start : start + width] for start in range(0, len(PROMPT), width)]
    with pytest.raises(Repeats):
        list(map(echo.passed, pieces))


def test_short_prompts_may_be_repeated() -> None:
    assert NoEcho("ha").passed("ha") == "ha"


KEY = "sk-Abcdef123"


@pytest.mark.parametrize("width", [1, 3, 500])
def test_a_key_is_hidden_also_where_it_arrives_in_pieces(width: int) -> None:
    secret = NoKey(ServerAddress.of("http://localhost", {KEY_VARIABLE: KEY}))
    text = f"Your key {KEY}, or {KEY.upper()}{KEY}: sk-Abc is its beginning. İ sk-A"
    pieces = [text[start : start + width] for start in range(0, len(text), width)]
    shown = [*map(secret.passed, pieces), secret.rest()]
    assert "".join(shown) == "Your key ***, or ******: sk-Abc is its beginning. İ sk-A"


@pytest.mark.parametrize("key", ["", "none", "x"])
def test_a_key_that_is_no_secret_may_be_a_word(key: str) -> None:
    secret = NoKey(ServerAddress.of("http://localhost", {KEY_VARIABLE: key}))
    assert secret.passed("none of xylophones") == "none of xylophones"
