"""Chat completions over HTTP: fields, streams, refusals."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from edgedec.core.errors import (
    BadFileError,
    ContextFullError,
    GrammarError,
    MemoryBudgetError,
    TemplateError,
)
from edgedec.grammar import GrammarSpec
from edgedec.server.work.request import BusyError, ClosingError
from edgedec.session.message import Message
from tests.server.fakes import MODEL, FakeHub, Running, running

SAID = {"role": "assistant", "content": "Hi"}
HELLO = {"messages": [{"role": "user", "content": "Hi"}]}


def post(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/v1/chat/completions", json={**HELLO, **fields})


def refused(answer: httpx.Response, status: int = 400) -> dict[str, Any]:
    """The fields of an error in OpenAI's form."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    error: dict[str, Any] = body["error"]
    return error


def frames(answer: httpx.Response) -> list[dict[str, Any]]:
    """The chunks of a stream, without its end mark."""
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_a_reply_has_openais_fields(client: httpx.Client) -> None:
    body = post(client).json()
    assert body["object"] == "chat.completion"
    assert body["model"] == MODEL
    assert body["id"].startswith("chatcmpl-")
    (choice,) = body["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["message"] == {"role": "assistant", "content": "Hello, world!", "refusal": None}
    usage = body["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (9, 4, 13)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 4}
    assert usage["completion_tokens_details"]["accepted_prediction_tokens"] == 1
    assert usage["edgedec"]["tokens_per_pass"] == 2.0
    assert usage["edgedec"]["memory_bytes"] == 1000
    assert usage["edgedec"]["joules_per_token"] == 0.25


def test_a_stream_has_the_same_text_in_chunks(client: httpx.Client) -> None:
    chunks = frames(post(client, stream=True))
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    choices = [chunk["choices"][0] for chunk in chunks]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(one["delta"].get("content", "") for one in choices) == "Hello, world!"
    assert [one["finish_reason"] for one in choices] == [None] * 5 + ["stop"]
    assert all("usage" not in chunk for chunk in chunks)


def test_a_stream_ends_with_figures_where_they_are_asked_for(client: httpx.Client) -> None:
    chunks = frames(post(client, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == 4
    assert all(chunk["usage"] is None for chunk in chunks[:-1])


def test_several_replies_are_told_apart(client: httpx.Client) -> None:
    whole = post(client, n=3).json()
    assert [one["index"] for one in whole["choices"]] == [0, 1, 2]
    assert whole["usage"]["prompt_tokens"] == 9
    assert whole["usage"]["completion_tokens"] == 12
    chunks = frames(post(client, n=2, stream=True))
    for number in (0, 1):
        own = [one for chunk in chunks for one in chunk["choices"] if one["index"] == number]
        assert "".join(one["delta"].get("content", "") for one in own) == "Hello, world!"
        assert own[-1]["finish_reason"] == "stop"


def test_log_probabilities_stand_beside_the_text(client: httpx.Client) -> None:
    content = post(client, logprobs=True, top_logprobs=2).json()["choices"][0]["logprobs"]["content"]
    assert [one["token"] for one in content] == ["Hello", ",", " world", "!"]
    assert content[0]["bytes"] == list(b"Hello")
    assert [one["logprob"] for one in content[0]["top_logprobs"]] == [0.0, -1.0]
    chunks = frames(post(client, logprobs=True, stream=True))
    streamed = [one for chunk in chunks for one in (chunk["choices"][0]["logprobs"] or {}).get("content", [])]
    assert [one["token"] for one in streamed] == ["Hello", ",", " world", "!"]


def test_tokens_come_with_their_drafters_where_they_are_asked_for(client: httpx.Client) -> None:
    choice = post(client, edgedec={"sources": True}).json()["choices"][0]
    assert choice["edgedec"]["tokens"][0] == {"text": "Hello", "source": "lookup"}
    chunks = frames(post(client, edgedec={"sources": True}, stream=True))
    assert chunks[1]["choices"][0]["edgedec"]["tokens"] == [{"text": "Hello", "source": "lookup"}]


def test_reasoning_is_no_content() -> None:
    with (
        running(FakeHub(words=("<think>", "So", ".", "</think>", "Two"))) as server,
        server.client() as client,
    ):
        message = post(client).json()["choices"][0]["message"]
        chunks = frames(post(client, stream=True))
        usage = post(client).json()["usage"]
    assert (message["reasoning_content"], message["content"]) == ("So.", "Two")
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(one.get("reasoning_content", "") for one in deltas) == "So."
    assert "".join(one.get("content", "") for one in deltas) == "Two"
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 3


def test_a_cut_reply_says_why(client: httpx.Client, served: Running) -> None:
    assert post(client, max_tokens=2).json()["choices"][0]["finish_reason"] == "length"
    assert served.hub.asked[-1].max_tokens == 2
    assert post(client, max_completion_tokens=3).json()["choices"][0]["message"]["content"] == "Hello, world"


def test_fields_become_a_request(client: httpx.Client, served: Running) -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c", "refusal": None, "annotations": []},
        {"role": "user", "content": "d"},
    ]
    drawing = {"temperature": 1, "top_p": 0.5, "top_k": 3, "min_p": 0.1, "seed": -1}
    post(client, messages=messages, model=MODEL, stop="x", n=2, **drawing)
    asked = served.hub.asked[-1]
    assert [(one.role, one.content) for one in asked.messages] == [
        ("system", "Be brief."), ("user", "ab"), ("assistant", "c"), ("user", "d"),
    ]  # fmt: skip
    assert asked.model == MODEL
    assert (asked.sampling.temperature, asked.sampling.top_p) == (1.0, 0.5)
    assert (asked.sampling.top_k, asked.sampling.min_p) == (3, 0.1)
    assert asked.sampling.seed == 2**64 - 1
    assert asked.stop == ("x",)
    assert asked.samples == 2


def test_without_a_temperature_the_preset_decides_and_without_a_seed_one_is_drawn(
    client: httpx.Client, served: Running
) -> None:
    post(client)
    post(client)
    first, second = (one.sampling for one in served.hub.asked)
    assert first.temperature is None
    assert first.seed != second.seed


def test_a_reply_goes_on_with_the_last_message(client: httpx.Client, served: Running) -> None:
    messages = [*HELLO["messages"], {"role": "assistant", "content": "Once"}]
    post(client, messages=messages, edgedec={"continue": True})
    assert served.hub.asked[-1].continues
    assert served.hub.asked[-1].messages[-1] == Message("assistant", "Once")
    assert (
        "end with a message of the assistant" in refused(post(client, edgedec={"continue": True}))["message"]
    )


def test_a_format_becomes_a_grammar(client: httpx.Client, served: Running) -> None:
    post(client, response_format={"type": "text"})
    assert served.hub.asked[-1].grammar is None
    post(client, response_format={"type": "json_object"})
    assert served.hub.asked[-1].grammar == GrammarSpec.json_object()
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    post(client, response_format={"type": "json_object", "schema": schema})
    assert served.hub.asked[-1].grammar == GrammarSpec.json_schema(schema)
    named = {"name": "thing", "schema": schema, "strict": True}
    post(client, response_format={"type": "json_schema", "json_schema": named})
    assert served.hub.asked[-1].grammar == GrammarSpec.json_schema(schema)
    own = {"type": "json_schema", "json_schema": named, "form_sampling": "unbiased"}
    post(client, response_format=own)
    assert served.hub.asked[-1].grammar == GrammarSpec.of(schema=schema, form_sampling="unbiased")


@pytest.mark.parametrize(
    "fields",
    [
        {"user": "ann", "metadata": {"a": "b"}, "store": True, "service_tier": "auto"},
        {"parallel_tool_calls": True, "safety_identifier": "x", "prompt_cache_key": "y"},
        {"prediction": {"type": "content", "content": "guess"}},
        {
            "modalities": ["text"],
            "tools": [],
            "functions": [],
            "logit_bias": None,
            "stop": None,
            "seed": None,
        },
        {"audio": None, "anything": None, "verbosity": "low", "client_metadata": {"a": "b"}},
        {"stream": False, "n": 1, "stop": []},
    ],
)
def test_fields_that_change_nothing_are_taken(client: httpx.Client, fields: dict[str, Any]) -> None:
    assert post(client, **fields).status_code == 200


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"messages": "Hi"}, "messages", "list"),
        ({"messages": []}, "messages", "needs a message"),
        ({"messages": [3]}, "messages[0]", "object"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role", "system, user, assistant"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0]", "message"),
        ({"messages": [{"role": "user"}]}, "messages[0]", "message"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "messages[0].content[0]",
            "text alone",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
            "messages[0].content[0]",
            "text alone",
        ),
        ({"temperature": "hot"}, "temperature", "number, not 'hot'"),
        ({"temperature": -1}, "temperature", "0 (greedy) or more"),
        ({"top_p": -0.1}, "top_p", "above 0"),
        ({"top_p": False}, "top_p", "number"),
        ({"seed": 1.5}, "seed", "integer"),
        ({"logit_bias": {"x": 1}}, "logit_bias", "integer"),
        ({"logit_bias": [1]}, "logit_bias", "object"),
        ({"logit_bias": {"5": 101}}, "logit_bias", "from -100 to 100"),
        ({"frequency_penalty": 3}, "frequency_penalty", "from -2 to 2"),
        ({"seed": 2**64}, "seed", "2^64"),
        ({"n": 0}, "n", "greater than or equal to 1"),
        ({"n": 100}, "n", "less than or equal to 16"),
        ({"max_tokens": 0}, "max_tokens", "greater than or equal to 1"),
        ({"max_tokens": True}, "max_tokens", "integer"),
        ({"stream": "yes"}, "stream", "boolean"),
        ({"stop": "x" * 201}, "stop", "at most 200 characters"),
        ({"stop": ["x"] * 257}, "stop", "at most 256"),
        ({"stop": 3}, "stop", "text"),
        ({"top_logprobs": 2}, "top_logprobs", "needs logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "20"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "needs stream"),
        ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x", "not supported"),
        ({"edgedec": {"sauces": True}}, "edgedec.sauces", "not supported"),
        ({"tempature": 1}, "tempature", "did you mean temperature?"),
        ({"audio": {"voice": "x"}}, "audio", "text"),
        ({"modalities": ["text", "audio"]}, "modalities", "text"),
        ({"functions": [{"name": "f"}]}, "functions", "use tools"),
        ({"reasoning_effort": "much"}, "reasoning_effort", "'none', 'minimal', 'low'"),
        ({"messages": [{**SAID, "images": ["a"]}]}, "messages[0].images", "text alone"),
        ({"messages": [{**SAID, "prefix": True}]}, "messages[0].prefix", "continue"),
        ({"messages": [{**SAID, "function_call": {"name": "f"}}]}, "messages[0].function_call", "tool_calls"),
        ({"enable_thinking": False}, "enable_thinking", "chat_template_kwargs"),
        ({"web_search_options": {}}, "web_search_options", "not supported"),
        ({"response_format": {"type": "xml"}}, "response_format.type", "json_object"),
        ({"response_format": {"type": "json_schema"}}, "response_format.schema", "JSON schema"),
        (
            {"response_format": {"type": "json_object", "form_sampling": "fair"}},
            "response_format.form_sampling",
            "masked or unbiased",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {}}},
            "response_format.json_schema.schema",
            "schema",
        ),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_field_is_named(client: httpx.Client, fields: dict[str, Any], param: str, words: str) -> None:
    error = refused(post(client, **fields))
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert words in error["message"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "JSON object"),
        (b"[" * 100_000, "not JSON"),
        (b'{"messages": [], "n": NaN}', "not JSON"),
        (b'"\\ud800"', "not JSON"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(client: httpx.Client, body: bytes, words: str) -> None:
    headers = {"content-type": "application/json"}
    answer = client.post("/v1/chat/completions", content=body, headers=headers)
    assert words in refused(answer)["message"]


def test_an_unknown_model_is_404(client: httpx.Client) -> None:
    error = refused(post(client, model="gpt-5"), 404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (BusyError("the queue is full", retry_after_s=7.2), 429, "rate_limit_exceeded"),
        (ContextFullError("the prompt has 900 tokens"), 400, "context_length_exceeded"),
        (TemplateError("roles must alternate"), 400, None),
        (GrammarError("the grammar is too complex"), 400, None),
        (ClosingError("the server is closing"), 503, "shutting_down"),
        (MemoryBudgetError("it does not fit"), 503, "out_of_memory"),
        (BadFileError("/secret/place/weights.bin is damaged"), 500, "internal_error"),
        (ValueError("secret words of the prompt"), 500, "internal_error"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else "",
)
@pytest.mark.parametrize("late", [False, True])
def test_errors_of_the_models_have_openais_form(
    error: Exception, status: int, code: str | None, late: bool
) -> None:
    hub = FakeHub(words=(), late_error=error) if late else FakeHub(error=error)
    with running(hub) as server, server.client() as client:
        for stream in (False, True):
            answer = post(client, stream=stream)
            assert refused(answer, status)["code"] == code
            assert "secret" not in answer.text
        assert answer.headers.get("retry-after") == (
            "8" if status == 429 else "5" if code == "shutting_down" else None
        )
        assert server.line_of(answer)["status"] == status
        assert "secret words" not in server.lines.getvalue()


def test_an_error_within_a_stream_ends_it() -> None:
    with running(FakeHub(late_error=ValueError("secret"))) as server, server.client() as client:
        answer = post(client, stream=True)
        assert answer.status_code == 200
        last = json.loads(answer.text.splitlines()[-2].removeprefix("data: "))
        assert last["error"]["type"] == "server_error"
        assert "[DONE]" not in answer.text
        assert "secret" not in answer.text
        assert server.line_of(answer)["cause"] == "ValueError"


def test_a_limit_on_thoughts_is_a_count(served: Running, client: httpx.Client) -> None:
    assert client.post("/v1/chat/completions", json={**HELLO, "max_thinking_tokens": 300}).status_code == 200
    assert served.hub.asked[-1].think_tokens == 300
    assert client.post("/v1/chat/completions", json=HELLO).status_code == 200
    assert served.hub.asked[-1].think_tokens is None
    for wrong in (-1, "many", 1.5):
        answer = client.post("/v1/chat/completions", json={**HELLO, "max_thinking_tokens": wrong})
        assert refused(answer)["param"] == "max_thinking_tokens"
