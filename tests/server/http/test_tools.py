"""Tools over HTTP: calls in a reply, streamed or whole, and the choice among tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.server.fakes import FakeHub, Running, running
from tests.server.http.test_chat import frames, post, refused

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tell the weather.",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}},
        "strict": True,
    },
}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"town": "Rome"}}\n</tool_call>'
TWO = ("I look. ", CALL[:20], CALL[20:50], CALL[50:], "\n", CALL.replace("Rome", "Oslo"))


@pytest.fixture(scope="module")
def one_server() -> Iterator[Running]:
    with running(FakeHub(words=TWO)) as server:
        yield server


@pytest.fixture
def found(served: Running) -> Iterator[openai.OpenAI]:
    """OpenAI's client."""
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def joined(chunks: list[dict[str, Any]]) -> dict[int, dict[str, str]]:
    """The calls that the chunks of a stream add up to."""
    found: dict[int, dict[str, str]] = {}
    for chunk in chunks:
        for news in chunk["choices"][0]["delta"].get("tool_calls", ()):
            if "id" in news:
                assert news["type"] == "function"
                found[news["index"]] = {"id": news["id"], "name": news["function"]["name"], "arguments": ""}
            found[news["index"]]["arguments"] += news["function"]["arguments"]
    return found


def test_calls_of_a_reply_are_told_apart_from_its_text(client: httpx.Client, served: Running) -> None:
    choice = post(client, tools=[WEATHER]).json()["choices"][0]
    message = choice["message"]
    assert choice["finish_reason"] == "tool_calls"
    assert message["content"].strip() == "I look."
    assert [one["function"]["name"] for one in message["tool_calls"]] == ["weather", "weather"]
    towns = [json.loads(one["function"]["arguments"]) for one in message["tool_calls"]]
    assert towns == [{"town": "Rome"}, {"town": "Oslo"}]
    assert len({one["id"] for one in message["tool_calls"]}) == 2
    (tool,) = served.hub.asked[-1].tools
    assert tool["function"]["name"] == "weather"
    assert tool["function"]["strict"]


def test_a_stream_has_the_same_calls(client: httpx.Client) -> None:
    whole = post(client, tools=[WEATHER]).json()["choices"][0]["message"]["tool_calls"]
    chunks = frames(post(client, tools=[WEATHER], stream=True))
    found = joined(chunks)
    assert [one["arguments"] for one in found.values()] == [one["function"]["arguments"] for one in whole]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert "<tool_call>" not in json.dumps(chunks)


def test_one_call_at_a_time_where_that_is_asked_for(client: httpx.Client) -> None:
    message = post(client, tools=[WEATHER], parallel_tool_calls=False).json()["choices"][0]["message"]
    assert len(message["tool_calls"]) == 1
    chunks = frames(post(client, tools=[WEATHER], parallel_tool_calls=False, stream=True))
    assert list(joined(chunks)) == [0]


def test_without_tools_the_text_is_the_text(client: httpx.Client) -> None:
    message = post(client).json()["choices"][0]["message"]
    assert CALL in message["content"]
    assert "tool_calls" not in message


def test_results_of_calls_go_back_to_the_model(client: httpx.Client, served: Running) -> None:
    message = post(client, tools=[WEATHER]).json()["choices"][0]["message"]
    results = [
        {"role": "tool", "tool_call_id": one["id"], "content": "rain"} for one in message["tool_calls"]
    ]
    messages = [{"role": "user", "content": "Hi"}, {**message, "content": None}, *results]
    assert post(client, messages=messages, tools=[WEATHER]).status_code == 200
    asked = served.hub.asked[-1].messages
    assert [one.role for one in asked] == ["user", "assistant", "tool", "tool"]
    assert asked[1].tool_calls[0].values() == {"town": "Rome"}


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        (None, "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "function": {"name": "weather"}}, "weather"),
    ],
)
def test_a_choice_among_tools(client: httpx.Client, served: Running, choice: Any, wanted: str) -> None:
    assert post(client, tools=[WEATHER], tool_choice=choice).status_code == 200
    assert served.hub.asked[-1].tool_choice == wanted


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [3]}, "tools[0]"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0]"),
        ({"tools": [WEATHER], "tool_choice": "weather"}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": 3}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"chat_template_kwargs": {"messages": 1}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"x": [1]}}, "chat_template_kwargs"),
    ],
    ids=str,
)
def test_a_wrong_field_is_named(client: httpx.Client, fields: dict[str, Any], param: str) -> None:
    assert refused(post(client, **fields))["param"] == param


def test_options_go_to_the_template(client: httpx.Client, served: Running) -> None:
    assert post(client, chat_template_kwargs={"enable_thinking": False}).status_code == 200
    assert served.hub.asked[-1].template_options == {"enable_thinking": False}


def test_a_response_has_calls_as_items(served: Running, found: openai.OpenAI) -> None:
    flat = {"type": "function", **WEATHER["function"]}  # type: ignore[dict-item]
    whole = found.responses.create(model="tiny", input="Hi", tools=[flat], tool_choice="auto")  # type: ignore[list-item]
    assert [one.type for one in whole.output] == ["message", "function_call", "function_call"]
    call: Any = whole.output[1]
    assert (call.name, json.loads(call.arguments), call.status) == ("weather", {"town": "Rome"}, "completed")
    assert whole.status == "completed"
    with found.responses.stream(model="tiny", input="Hi", tools=[flat]) as stream:  # type: ignore[list-item]
        names = [event.type for event in stream]
        last: Any = stream.get_final_response().output[2]
    assert json.loads(last.arguments) == {"town": "Oslo"}
    assert names.count("response.function_call_arguments.done") == 2
    assert served.hub.asked[-1].tools[0]["function"]["name"] == "weather"


def test_openais_client_streams_calls(found: openai.OpenAI) -> None:
    asked = [{"role": "user", "content": "Hi"}]
    with found.chat.completions.stream(model="tiny", messages=asked, tools=[WEATHER]) as stream:  # type: ignore[list-item]
        for _ in stream:
            pass
        calls = stream.get_final_completion().choices[0].message.tool_calls
    assert calls is not None
    assert [json.loads(one.function.arguments)["town"] for one in calls] == ["Rome", "Oslo"]
