"""Anthropic's messages over HTTP, with Anthropic's client, and bodies of Claude Code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.fixtures.later import later
from tests.server.fakes import FakeHub, Running, eventually, running

if TYPE_CHECKING:
    import anthropic
else:
    anthropic = later("anthropic")

ASKED: list[Any] = [{"role": "user", "content": "Hi"}]
WEATHER: Any = {
    "name": "weather",
    "description": "Tell the weather.",
    "input_schema": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"town": "Rome"}}\n</tool_call>'
WORDS = ("<think>", "So.", "</think>", "I look. ", CALL[:20], CALL[20:50], CALL[50:], "\n", CALL)
CLAUDE_CODE: dict[str, Any] = {
    "model": "tiny",
    "max_tokens": 32000,
    "metadata": {"user_id": "user_1_account__session_2"},
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.37; cch=fa690;"},
        {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<system-reminder>x</system-reminder>"},
                {"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Which?", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"town": "Rome"}},
                {"type": "tool_use", "id": "toolu_2", "name": "weather", "input": {"town": "Oslo"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [{"type": "text", "text": "rain"}, {"type": "text", "text": "all day"}],
                },
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no town", "is_error": True},
                {"type": "text", "text": "and now?"},
            ],
        },
    ],
    "tools": [WEATHER | {"cache_control": {"type": "ephemeral"}, "eager_input_streaming": True}],
    "thinking": {"type": "enabled", "budget_tokens": 31999},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "stream": True,
}


@pytest.fixture(scope="module")
def one_server() -> Iterator[Running]:
    with running(FakeHub(words=WORDS)) as server:
        yield server


@pytest.fixture
def found(served: Running) -> Iterator[anthropic.Anthropic]:
    """Anthropic's client."""
    with anthropic.Anthropic(base_url=served.url, api_key="none", max_retries=0) as client:
        yield client


def post(client: httpx.Client, **fields: Any) -> httpx.Response:
    body = {"model": "tiny", "max_tokens": 50, "messages": ASKED, **fields}
    return client.post("/v1/messages", json=body)


def events(answer: httpx.Response) -> list[dict[str, Any]]:
    """The events of a stream; each has its name in its data, too."""
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    found = []
    for block in answer.text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def refused(answer: httpx.Response, status: int = 400, kind: str = "invalid_request_error") -> str:
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert (body["type"], body["error"]["type"]) == ("error", kind)
    return str(body["error"]["message"])


def test_a_message_has_blocks_of_thinking_text_and_calls(found: anthropic.Anthropic) -> None:
    whole = found.messages.create(model="tiny", max_tokens=50, messages=ASKED, tools=[WEATHER])
    assert [block.type for block in whole.content] == ["thinking", "text", "tool_use", "tool_use"]
    blocks: Any = whole.content
    assert blocks[0].thinking == "So."
    assert blocks[1].text.strip() == "I look."
    assert (blocks[2].name, blocks[2].input) == ("weather", {"town": "Rome"})
    assert blocks[2].id != blocks[3].id
    assert (whole.stop_reason, whole.role, whole.model) == ("tool_use", "assistant", "tiny")
    assert (whole.usage.input_tokens, whole.usage.cache_read_input_tokens) == (5, 4)


def test_a_stream_adds_up_to_the_message(found: anthropic.Anthropic) -> None:
    whole = found.messages.create(model="tiny", max_tokens=50, messages=ASKED, tools=[WEATHER])
    with found.messages.stream(model="tiny", max_tokens=50, messages=ASKED, tools=[WEATHER]) as stream:
        texts = "".join(stream.text_stream)
        last = stream.get_final_message()
    assert texts == next(block.text for block in whole.content if block.type == "text")
    ours, theirs = last.model_dump(), whole.model_dump()
    assert ours["content"] == theirs["content"]
    assert (ours["stop_reason"], ours["usage"]) == (theirs["stop_reason"], theirs["usage"])


def test_the_events_of_a_stream_are_in_order(client: httpx.Client) -> None:
    found = events(post(client, tools=[WEATHER], stream=True))
    names = [one["type"] for one in found]
    assert names[:3] == ["message_start", "ping", "content_block_start"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert found[0]["message"]["usage"] == {"input_tokens": 9, "output_tokens": 0}
    assert found[0]["message"]["content"] == []
    started = [one["content_block"] for one in found if one["type"] == "content_block_start"]
    assert [one["type"] for one in started] == ["thinking", "text", "tool_use", "tool_use"]
    assert all(one["input"] == {} for one in started[2:])
    indices = [one["index"] for one in found if one["type"] == "content_block_stop"]
    assert indices == [0, 1, 2, 3]
    kinds = {one["delta"]["type"] for one in found if one["type"] == "content_block_delta"}
    assert kinds == {"thinking_delta", "text_delta", "input_json_delta"}


def test_bodies_of_claude_code_are_read(served: Running, client: httpx.Client) -> None:
    headers = {
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "claude-code-20250219,x",
        "x-api-key": "k",
    }
    answer = client.post("/v1/messages?beta=true", json=CLAUDE_CODE, headers=headers)
    assert events(answer)[-1]["type"] == "message_stop"
    asked = served.hub.asked[-1]
    assert asked.messages[0].content == "You are Claude Code.\n\nBe brief."  # not what changes each time
    roles = [one.role for one in asked.messages]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user"]
    assert asked.messages[1].content == "<system-reminder>x</system-reminder>\n\nlook"
    reply = asked.messages[2]
    assert (reply.reasoning, reply.content) == ("Which?", "I look.")
    assert [call.values() for call in reply.tool_calls] == [{"town": "Rome"}, {"town": "Oslo"}]
    assert [one.content for one in asked.messages[3:5]] == ["rain\n\nall day", "Error: no town"]
    assert asked.messages[3].tool_call_id == "toolu_1"
    assert (asked.reasoning_effort, asked.max_tokens) == ("high", 32000)


def test_tools_in_a_row(found: anthropic.Anthropic, served: Running) -> None:
    messages: list[Any] = list(ASKED)
    for _ in range(3):
        with found.messages.stream(model="tiny", max_tokens=50, messages=messages, tools=[WEATHER]) as stream:
            reply = stream.get_final_message()
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "rain"}
            for block in reply.content
            if block.type == "tool_use"
        ]
        messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]
    roles = [one.role for one in served.hub.asked[-1].messages]
    assert roles == ["user", *["assistant", "tool", "tool"] * 2]


def test_turns_of_one_role_become_one(served: Running, client: httpx.Client) -> None:
    turns = [*ASKED, {"role": "user", "content": "there"}, {"role": "assistant", "content": "Yes"}]
    post(client, messages=[*turns, {"role": "assistant", "content": "and"}])
    asked = served.hub.asked[-1]
    assert [one.content for one in asked.messages] == ["Hi\n\nthere", "Yes\n\nand"]
    assert asked.continues


@pytest.mark.parametrize(
    ("given", "choice", "several"),
    [
        ({"type": "auto"}, "auto", 2),
        ({"type": "any"}, "required", 2),
        ({"type": "none"}, "none", 2),
        ({"type": "tool", "name": "weather"}, "weather", 2),
        ({"type": "auto", "disable_parallel_tool_use": True}, "auto", 1),
    ],
)
def test_a_choice_among_tools(
    served: Running, client: httpx.Client, given: dict[str, Any], choice: str, several: int
) -> None:
    content = post(client, tools=[WEATHER], tool_choice=given).json()["content"]
    assert served.hub.asked[-1].tool_choice == choice
    assert sum(block["type"] == "tool_use" for block in content) == several


@pytest.mark.parametrize(
    ("fields", "effort"),
    [
        ({}, None),
        ({"thinking": {"type": "disabled"}}, "none"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "low"),
        ({"thinking": {"type": "enabled", "budget_tokens": 10000}}, "medium"),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, "xhigh"),
    ],
)
def test_thinking_is_an_effort(
    served: Running, client: httpx.Client, fields: dict[str, Any], effort: str | None
) -> None:
    assert post(client, **fields).status_code == 200
    assert served.hub.asked[-1].reasoning_effort == effort
    assert served.hub.asked[-1].think_tokens == fields.get("thinking", {}).get("budget_tokens")


def test_the_text_of_thinking_is_left_out_where_that_is_asked_for(client: httpx.Client) -> None:
    content = post(client, thinking={"type": "adaptive", "display": "omitted"}).json()["content"]
    assert content[0] == {"type": "thinking", "thinking": "", "signature": ""}


def test_values_of_a_body(served: Running, client: httpx.Client) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    fields = {"temperature": 0.5, "top_p": 0.9, "top_k": 3, "stop_sequences": ["END"]}
    form = {"format": {"type": "json_schema", "schema": schema}}
    assert post(client, **fields, output_config=form).status_code == 200
    asked = served.hub.asked[-1]
    assert (asked.sampling.temperature, asked.sampling.top_p, asked.sampling.top_k) == (0.5, 0.9, 3)
    assert asked.stop == ("END",)
    assert asked.grammar is not None


def test_the_stop_sequence_that_ended_a_message_is_named() -> None:
    with running(FakeHub(stop="END")) as server, server.client() as client:
        ended = post(client, stop_sequences=["END"]).json()
        assert (ended["stop_reason"], ended["stop_sequence"]) == ("stop_sequence", "END")
        assert post(client).json()["stop_reason"] == "end_turn"  # a stop string of the model's own
        assert post(client, max_tokens=2).json()["stop_reason"] == "max_tokens"


def test_a_call_that_was_cut_is_told_as_text(client: httpx.Client) -> None:
    cut = post(client, tools=[WEATHER], max_tokens=6).json()
    assert cut["stop_reason"] == "max_tokens"
    assert list(cut["content"][-1]["input"]) == ["INVALID_JSON"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"messages": []}, "messages is empty"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content should be text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
            "messages[0].content[0] is of type image; models here read text alone",
        ),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0] is bash_20250124"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "x"}}, "tool_choice"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": "warm"}, "temperature"),
        ({"thinking": {"type": "deep"}}, "thinking.type"),
        ({"frequenzy": 1}, "unknown field frequenzy"),
    ],
    ids=str,
)
def test_a_wrong_field_is_named(client: httpx.Client, fields: dict[str, Any], words: str) -> None:
    assert words in refused(post(client, **fields))


def test_images_in_results_are_refused(client: httpx.Client) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [picture]}
    words = refused(post(client, messages=[{"role": "user", "content": [result]}]))
    assert words == "messages[0].content[0].content[0] is of type image; models here read text alone"


def test_errors_are_of_the_clients_kinds(found: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="no model"):
        found.messages.create(model="other", max_tokens=5, messages=ASKED)
    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
        found.messages.create(model="tiny", max_tokens=0, messages=ASKED)


def test_the_key_of_the_server_is_that_of_the_client() -> None:
    with running(FakeHub(), key="secret") as server:
        with anthropic.Anthropic(base_url=server.url, api_key="secret", max_retries=0) as good:
            assert good.messages.create(model="tiny", max_tokens=5, messages=ASKED).content
        with anthropic.Anthropic(base_url=server.url, auth_token="secret", max_retries=0) as other:
            assert other.messages.create(model="tiny", max_tokens=5, messages=ASKED).content
        with (
            anthropic.Anthropic(base_url=server.url, api_key="wrong", max_retries=0) as bad,
            pytest.raises(anthropic.AuthenticationError, match="the key is wrong"),
        ):
            bad.messages.create(model="tiny", max_tokens=5, messages=ASKED)


def test_an_error_within_a_stream_is_an_event() -> None:
    with running(FakeHub(late_error=RuntimeError("secret words"))) as server, server.client() as client:
        last = events(post(client, stream=True))[-1]
        assert last["type"] == "error"
        assert last["error"]["type"] == "api_error"
        assert "secret" not in json.dumps(last)


def test_a_client_that_goes_away_cancels_its_message() -> None:
    with running(FakeHub(words=("word ",) * 500, pause_s=0.02)) as server:
        with (
            anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client,
            client.messages.stream(model="tiny", max_tokens=500, messages=ASKED) as stream,
        ):
            next(iter(stream.text_stream))
        assert eventually(lambda: server.hub.tickets[-1].cancelled)
