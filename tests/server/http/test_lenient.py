"""Requests as public clients send them: fields, messages and items that other servers answer."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from edgedec.grammar import GrammarSpec
from tests.server.fakes import Running
from tests.server.http.test_chat import post
from tests.server.http.test_tools import WEATHER

CODEX: dict[str, Any] = {
    "model": "tiny",
    "instructions": "You are a coding agent.",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List the files."}]},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "encrypted_content": "gAAA",
            "content": [{"type": "reasoning_text", "text": "I list them."}],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "shell",
            "arguments": '{"command": ["ls',
        },
        {"type": "function_call_output", "call_id": "c1", "output": "arguments were cut"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
        {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "*** Begin Patch"},
        {
            "type": "custom_tool_call_output",
            "call_id": "c2",
            "output": [{"type": "input_text", "text": "done"}],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on."}]},
    ],
    "tools": [
        {
            "type": "function",
            "name": "shell",
            "description": "Run.",
            "strict": False,
            "parameters": {"type": "object"},
        },
        {"type": "web_search", "external_web_access": True},
        {
            "type": "custom",
            "name": "apply_patch",
            "format": {"type": "grammar", "syntax": "lark", "definition": "x"},
        },
        {"type": "local_shell"},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "stream": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "0199",
    "text": {"verbosity": "low"},
    "client_metadata": {"x-codex-installation-id": "1"},
}


def test_codex_is_answered(client: httpx.Client, served: Running) -> None:
    answer = client.post("/v1/responses", json=CODEX)
    assert answer.status_code == 200, answer.text
    assert [tool["name"] for tool in answer.json()["tools"]] == ["shell"]
    asked = served.hub.asked[-1]
    assert [tool["function"]["name"] for tool in asked.tools] == ["shell"]
    assert asked.reasoning_effort == "medium"
    assert [(one.role, one.content) for one in asked.messages] == [
        ("system", "You are a coding agent."),
        ("system", "Be brief."),
        ("user", "List the files."),
        ("assistant", ""),
        ("tool", "arguments were cut"),
        ("assistant", ""),
        ("tool", "done"),
        ("user", "Go on."),
    ]
    first, second = asked.messages[3], asked.messages[5]
    assert (first.reasoning, first.tool_calls[0].arguments) == ("I list them.", '{"command": ["ls')
    assert second.tool_calls[0].values() == {"input": "*** Begin Patch"}


def test_reasoning_joins_the_answer_behind_it(client: httpx.Client, served: Running) -> None:
    def thought(text: str) -> dict[str, Any]:
        return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}

    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "4"}]}
    items = [
        {"role": "user", "content": "a"},
        thought("so"),
        answer,
        {"role": "user", "content": "b"},
        thought("cut"),
    ]
    assert client.post("/v1/responses", json={"input": items}).status_code == 200
    assert [(one.content, one.reasoning) for one in served.hub.asked[-1].messages] == [
        ("a", ""),
        ("4", "so"),
        ("b", ""),
    ]


def test_a_tool_of_another_type_cannot_be_demanded(client: httpx.Client) -> None:
    fields = {"input": "Hi", "tools": [{"type": "web_search"}]}
    assert client.post("/v1/responses", json=fields).status_code == 200
    for choice in ("required", {"type": "web_search"}):
        assert client.post("/v1/responses", json={**fields, "tool_choice": choice}).status_code == 400


def test_system_messages_may_be_several_and_anywhere(client: httpx.Client, served: Running) -> None:
    roles = ["system", "developer", "user", "assistant", "system", "user", "developer"]
    messages = [{"role": role, "content": f"{at}"} for at, role in enumerate(roles)]
    assert post(client, messages=messages).status_code == 200
    wanted = [("system" if role == "developer" else role, f"{at}") for at, role in enumerate(roles)]
    assert [(one.role, one.content) for one in served.hub.asked[-1].messages] == wanted


SENT_BACK: dict[str, Any] = {
    "role": "assistant",
    "content": "4",
    "id": "msg_1",
    "refusal": None,
    "annotations": [],
    "audio": None,
    "function_call": None,
    "reasoning_content": "two and two",
    "reasoning_details": [{"type": "x"}],
    "provider_specific_fields": {"refusal": None},
    "edgedec": {"tokens": []},
    "thinking_blocks": [],
}


@pytest.mark.parametrize(
    ("message", "role", "content"),
    [
        (SENT_BACK, "assistant", "4"),
        ({"role": "assistant", "content": []}, "assistant", ""),
        ({**SENT_BACK, "content": None, "refusal": "I cannot."}, "assistant", ""),
        ({"role": "user", "content": "x", "id": "1", "timestamp": 7, "reasoning_content": "y"}, "user", "x"),
        (
            {"role": "user", "content": "x", "tool_calls": [], "tool_call_id": None, "cache_control": {}},
            "user",
            "x",
        ),
        (
            {"role": "system", "content": [{"type": "text", "text": "x", "cache_control": {"type": "e"}}]},
            "system",
            "x",
        ),
        ({"role": "tool", "tool_call_id": "1", "content": None, "is_error": True}, "tool", ""),
        (
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "text", "text": "4"},
                    {"type": "refusal", "refusal": "!"},
                ],
            },
            "assistant",
            "4!",
        ),
    ],
    ids=str,
)
def test_fields_of_other_servers_in_messages_are_left_out(
    client: httpx.Client, served: Running, message: dict[str, Any], role: str, content: str
) -> None:
    answer = post(client, messages=[message, {"role": "user", "content": "Go on."}])
    assert answer.status_code == 200, answer.text
    found = served.hub.asked[-1].messages[0]
    assert (found.role, found.content) == (role, content)
    assert found.reasoning == ("two and two" if message.get("reasoning_details") else "")


def test_cut_arguments_of_an_earlier_call_are_kept_as_text(client: httpx.Client, served: Running) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"town": "Ro'}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "no JSON"},
    ]
    answer = post(client, messages=messages, tools=[WEATHER])
    assert answer.status_code == 200, answer.text
    assert served.hub.asked[-1].messages[1].tool_calls[0].arguments == '{"town": "Ro'


def test_tools_and_a_format_go_together(client: httpx.Client, served: Running) -> None:
    for choice in ("auto", "required"):
        answer = post(client, tools=[WEATHER], tool_choice=choice, response_format={"type": "json_object"})
        assert answer.status_code == 200, answer.text
        assert served.hub.asked[-1].grammar == GrammarSpec.json_object()


def test_values_of_other_servers(client: httpx.Client, served: Running) -> None:
    given = {
        "max_tokens": -1,
        "usage": {"include": True},
        "cache_prompt": True,
        "keep_alive": "5m",
        "top_p": 0,
        "temperature": 0.7,
        "stop": ["", *map(str, range(20))],
        "reasoning_effort": "none",
    }
    assert post(client, **given).status_code == 200
    asked = served.hub.asked[-1]
    assert (asked.sampling.top_p, asked.sampling.top_k, asked.sampling.temperature) == (1, 1, 0.7)
    assert asked.stop == tuple(map(str, range(20)))
    assert asked.reasoning_effort == "none"
    assert asked.max_tokens is None
