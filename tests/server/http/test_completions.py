"""Text completions over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

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
        ({"suffix": "end"}, "suffix"),
        ({"logprobs": 6}, "logprobs"),
        ({"echo": True, "logprobs": 1}, "echo"),
        ({"messages": []}, "messages"),
        ({"stream_options": {}}, "stream_options"),
    ],
    ids=str,
)
def test_a_wrong_field_is_named(client: httpx.Client, fields: dict[str, Any], param: str) -> None:
    assert refused(post(client, **fields))["param"] == param
