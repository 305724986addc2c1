"""Whatever a client sends: an answer in OpenAI's form, and a server that goes on."""

from __future__ import annotations

import json
from typing import Any

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.server.fakes import Running

PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/edgedec/markdown")
FIELDS = (
    "messages", "prompt", "input", "text", "model", "stream", "n", "stop", "max_tokens", "logprobs", "seed",
    "top_logprobs", "temperature", "top_p", "logit_bias", "response_format", "tools", "tool_choice",
    "edgedec", "stream_options", "instructions", "include", "metadata", "echo", "nonsense",
)  # fmt: skip
WORDS = (
    "role",
    "content",
    "type",
    "text",
    "user",
    "assistant",
    "tool",
    "tool_calls",
    "function",
    "json_schema",
    "schema",
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10) | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
BODIES = st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=8), VALUES, max_size=6)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(("system", "user", "assistant", "tool", "x")), "content": VALUES},
        optional={"tool_calls": VALUES, "name": VALUES, "tool_call_id": VALUES},
    ),
    max_size=3,
)
SHARED = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
JSON = {"content-type": "application/json"}


def sound(answer: httpx.Response) -> bool:
    """Whether an answer is one, or an error in OpenAI's form that is the client's fault."""
    if answer.status_code == 200:
        return True
    error = answer.json()["error"]
    return 400 <= answer.status_code < 500 and set(error) == {"message", "type", "param", "code"}


@SHARED
@given(path=st.sampled_from(PATHS), body=BODIES)
def test_any_fields_are_answered(client: httpx.Client, path: str, body: dict[str, Any]) -> None:
    data = json.dumps(body).encode()
    answer = client.post(path, content=data, headers=JSON)
    assert sound(answer), answer.text


@SHARED
@given(messages=MESSAGES, rest=BODIES)
def test_any_messages_are_answered(client: httpx.Client, messages: list[Any], rest: dict[str, Any]) -> None:
    data = json.dumps({**rest, "messages": messages}).encode()
    assert sound(client.post("/v1/chat/completions", content=data, headers=JSON))


@SHARED
@given(path=st.sampled_from(PATHS), data=st.binary(max_size=200))
def test_any_bytes_are_answered(client: httpx.Client, path: str, data: bytes) -> None:
    answer = client.post(path, content=data, headers=JSON)
    assert answer.status_code == 400
    assert sound(answer)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(min_size=1, max_size=200),
    begins=st.sampled_from((b"", b"GET /health ", b"POST / HTTP/1.1\r\n")),
)
def test_any_bytes_of_a_connection_are_survived(served: Running, data: bytes, begins: bytes) -> None:
    served.raw(begins + data + b"\r\n\r\n", wait_s=0.02)


def test_the_server_goes_on(client: httpx.Client) -> None:
    assert client.get("/health").status_code == 200
