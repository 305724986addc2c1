"""Responses over HTTP: items, events, refusals."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from edgedec.grammar import GrammarSpec
from tests.server.fakes import FakeHub, Running, running
from tests.server.http.test_chat import refused

THINKS = ("<think>", "Hm", "</think>", "Two", ".")


def post(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/v1/responses", json={"input": "Hi", **fields})


def events(answer: httpx.Response) -> list[dict[str, Any]]:
    """The events of a stream; their names are their types."""
    found = []
    for block in answer.text.strip().split("\n\n"):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    assert [one["sequence_number"] for one in found] == list(range(len(found)))
    return found


def test_a_response_has_openais_fields(client: httpx.Client) -> None:
    body = post(client, instructions="Be brief.", metadata={"a": "b"}, temperature=0.5).json()
    assert (body["object"], body["status"], body["error"]) == ("response", "completed", None)
    (item,) = body["output"]
    assert (item["type"], item["role"], item["status"]) == ("message", "assistant", "completed")
    assert item["content"] == [
        {"type": "output_text", "text": "Hello, world!", "annotations": [], "logprobs": []}
    ]
    assert (body["instructions"], body["metadata"]) == ("Be brief.", {"a": "b"})
    assert (body["temperature"], body["store"]) == (0.5, False)
    assert (body["usage"]["input_tokens"], body["usage"]["output_tokens"]) == (9, 4)
    assert body["usage"]["input_tokens_details"] == {"cached_tokens": 4}


def test_a_stream_opens_fills_and_closes_items() -> None:
    with running(FakeHub(words=THINKS)) as server, server.client() as client:
        found = events(post(client, stream=True))
    assert [one["type"].removeprefix("response.") for one in found] == [
        "created", "in_progress",
        "output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.done",
        "content_part.done", "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done",
        "completed",
    ]  # fmt: skip
    whole = found[-1]["response"]
    assert [one["type"] for one in whole["output"]] == ["reasoning", "message"]
    assert whole["output"] == [one["item"] for one in found if one["type"] == "response.output_item.done"]
    assert [one["output_index"] for one in found if "output_index" in one] == [0] * 6 + [1] * 7
    assert whole["usage"]["output_tokens_details"]["reasoning_tokens"] == 2


def test_a_cut_response_is_incomplete(client: httpx.Client) -> None:
    body = post(client, max_output_tokens=2).json()
    assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert body["output"][0]["status"] == "incomplete"
    last = events(post(client, max_output_tokens=2, stream=True))[-1]
    assert last["type"] == "response.incomplete"


def test_an_empty_reply_is_an_empty_message() -> None:
    with running(FakeHub(words=())) as server, server.client() as client:
        assert post(client).json()["output"][0]["content"][0]["text"] == ""


def test_items_become_messages(client: httpx.Client, served: Running) -> None:
    items = [
        {"role": "user", "content": "a"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "b"}],
            "id": "m",
        },
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "now", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "now", "arguments": '{"zone": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "noon"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "d"}]},
    ]
    assert post(client, input=items, instructions="Be brief.").status_code == 200
    messages = served.hub.asked[-1].messages
    assert [(one.role, one.content) for one in messages] == [
        ("system", "Be brief."), ("user", "a"), ("assistant", "b"), ("tool", "noon"), ("user", "d"),
    ]  # fmt: skip
    assert [call.id for call in messages[2].tool_calls] == ["c1", "c2"]
    assert messages[3].tool_call_id == "c1"


def test_the_output_of_one_response_is_input_of_the_next(client: httpx.Client, served: Running) -> None:
    output = post(client).json()["output"]
    assert post(client, input=[{"role": "user", "content": "Hi"}, *output]).status_code == 200
    assert served.hub.asked[-1].messages[-1].content == "Hello, world!"


def test_a_format_and_log_probabilities(client: httpx.Client, served: Running) -> None:
    schema = {"type": "object"}
    post(client, text={"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}})
    assert served.hub.asked[-1].grammar == GrammarSpec.json_schema(schema)
    body = post(client, include=["message.output_text.logprobs"], top_logprobs=1).json()
    assert body["output"][0]["content"][0]["logprobs"][0]["token"] == "Hello"


@pytest.mark.parametrize(
    "fields",
    [
        {"store": True, "truncation": "disabled", "background": False, "tools": [], "reasoning": {}},
        {"include": ["reasoning.encrypted_content"], "user": "x", "parallel_tool_calls": False},
        {"text": {"format": {"type": "text"}, "verbosity": "low"}, "previous_response_id": None},
        {"truncation": "auto", "max_tool_calls": 3, "include": ["web_search_call.action.sources"]},
    ],
)
def test_fields_that_change_nothing_are_taken(client: httpx.Client, fields: dict[str, Any]) -> None:
    assert post(client, **fields).status_code == 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": 3}, "input"),
        ({"input": []}, "input"),
        ({"input": [3]}, "input[0]"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input[0].content[0]"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "c"}, "conversation"),
        ({"background": True}, "background"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"include": "all"}, "include"),
        ({"text": {"verbosity": "loud"}}, "text.verbosity"),
        ({"reasoning": {"effort": "much"}}, "reasoning.effort"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"stop": ["x"]}, "stop"),
        ({"n": 2}, "n"),
    ],
    ids=str,
)
def test_a_wrong_field_is_named(client: httpx.Client, fields: dict[str, Any], param: str) -> None:
    assert refused(post(client, **fields))["param"] == param


def test_an_error_within_a_stream_is_a_failed_response() -> None:
    with running(FakeHub(late_error=ValueError("secret"))) as server, server.client() as client:
        answer = post(client, stream=True)
    last = events(answer)[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["error"]["code"] == "internal_error"
    assert "secret" not in answer.text
