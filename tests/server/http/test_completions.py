"""Text completions over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from edgedec.server.wire.logprobs import content_logprobs, text_logprobs
from edgedec.server.work.request import TracedToken
from edgedec.session.token_logprob import TokenLogprob
from tests.server.fakes import Running
from tests.server.http.test_chat import frames, refused


def post(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/v1/completions", json={"prompt": "Once", **fields})


def test_a_text_is_continued(client: httpx.Client, served: Running) -> None:
    body = post(client).json()
    assert body["object"] == "text_completion"
    assert body["choices"][0] == {
        "index": 0, "text": "Hello, world!", "logprobs": None, "finish_reason": "stop",
    }  # fmt: skip
    assert body["usage"]["total_tokens"] == 13
    assert served.hub.asked[-1].text == "Once"
    assert served.hub.asked[-1].max_tokens == 16
    assert not served.hub.asked[-1].messages


def test_control_tokens_of_the_prompt_are_tokens_unless_the_request_says_otherwise(
    client: httpx.Client, served: Running
) -> None:
    assert post(client, prompt="<|fim_prefix|>a").status_code == 200
    assert served.hub.asked[-1].parse_special
    assert post(client, prompt="<|fim_prefix|>a", parse_special=False).status_code == 200
    assert not served.hub.asked[-1].parse_special
    refused(post(client, parse_special="no"), 400)


def test_a_stream_has_the_same_text(client: httpx.Client) -> None:
    chunks = frames(post(client, stream=True, n=2, stream_options={"include_usage": True}))
    assert chunks[-1]["usage"]["completion_tokens"] == 8
    own = [one for chunk in chunks for one in chunk["choices"] if one["index"] == 1]
    assert "".join(one["text"] for one in own) == "Hello, world!"
    assert own[-1]["finish_reason"] == "stop"


def test_echo_puts_the_prompt_first(client: httpx.Client) -> None:
    assert post(client, echo=True).json()["choices"][0]["text"] == "OnceHello, world!"
    chunks = frames(post(client, echo=True, stream=True))
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "OnceHello, world!"


def test_log_probabilities_have_places_in_the_text(client: httpx.Client) -> None:
    found = post(client, logprobs=2).json()["choices"][0]["logprobs"]
    assert found["tokens"] == ["Hello", ",", " world", "!"]
    assert found["token_logprobs"] == [-0.5] * 4
    assert found["top_logprobs"][0] == {"Hello0": 0.0, "Hello1": -1.0}
    assert found["text_offset"] == [0, 5, 6, 12]
    chunks = frames(post(client, logprobs=0, stream=True))
    places = [one for chunk in chunks for one in chunk["choices"][0]["logprobs"]["text_offset"]]
    assert places == [0, 5, 6, 12]


def test_parts_of_characters_have_their_bytes_and_the_place_of_the_character() -> None:
    def token(number: int, raw: bytes, text: str, top: tuple[TokenLogprob, ...] = ()) -> TracedToken:
        shown = raw.decode("utf-8", "replace")
        return TracedToken(number, text, None, TokenLogprob(number, shown, -1.0, top, raw))

    euro = "\u20ac".encode()
    alike = tuple(TokenLogprob(at, "x", -float(at), (), b"x") for at in (7, 8))
    tokens = [
        token(1, b"a", "a"),
        token(2, euro[:1], ""),
        token(3, euro[1:], "\u20ac"),
        token(8, b"x", "x", alike),
    ]
    found = text_logprobs(tokens, 10, 2)
    assert found["text_offset"] == [10, 11, 11, 12]
    assert found["tokens"] == ["a", "bytes:\\xe2", "bytes:\\x82\\xac", "token_id:8"]
    assert found["top_logprobs"][3] == {"x": -7.0, "token_id:8": -8.0}
    assert [one["bytes"] for one in content_logprobs(tokens, 0)] == [[97], [0xE2], [0x82, 0xAC], [120]]


def test_a_replacement_character_that_a_model_wrote_is_a_character() -> None:
    mark = TracedToken(1, "\ufffd", None, TokenLogprob(1, "\ufffd", -1.0, (), "\ufffd".encode()))
    assert text_logprobs([mark], 0, 1)["tokens"] == ["\ufffd"]


@pytest.mark.parametrize("fields", [{"best_of": 1, "suffix": "", "echo": False}, {"prompt": ["Once"]}])
def test_fields_that_ask_for_the_usual_are_taken(client: httpx.Client, fields: dict[str, Any]) -> None:
    assert post(client, **fields).status_code == 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": [1, 2, 3]}, "prompt"),
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"best_of": 3}, "best_of"),
        ({"suffix": 3}, "suffix"),
        ({"logprobs": 6}, "logprobs"),
        ({"echo": True, "logprobs": 1}, "echo"),
        ({"messages": []}, "messages"),
        ({"stream_options": {}}, "stream_options"),
    ],
    ids=str,
)
def test_a_wrong_field_is_named(client: httpx.Client, fields: dict[str, Any], param: str) -> None:
    assert refused(post(client, **fields))["param"] == param
