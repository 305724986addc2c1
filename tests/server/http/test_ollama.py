"""Ollama's interface over HTTP, with Ollama's client: chats, prompts, tools, lines of a stream, errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.fixtures.later import later
from tests.server.fakes import FakeHub, Running, eventually, running

if TYPE_CHECKING:
    import ollama
else:
    ollama = later("ollama")

ASKED: list[Any] = [{"role": "user", "content": "Hi"}]
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tell the weather.",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
    },
}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"town": "Rome"}}\n</tool_call>'
WORDS = ("<think>", "So.", "</think>", "I look. ", CALL[:20], CALL[20:50], CALL[50:], "\n", CALL)


@pytest.fixture(scope="module")
def one_server() -> Iterator[Running]:
    with running(FakeHub(words=WORDS)) as server:
        yield server


@pytest.fixture
def found(served: Running) -> Iterator[ollama.Client]:
    """Ollama's client."""
    with ollama.Client(host=served.url, trust_env=False) as client:
        yield client


def post(client: httpx.Client, path: str = "/api/chat", **fields: Any) -> httpx.Response:
    asked = {"messages": ASKED} if path == "/api/chat" else {"prompt": "Hi"}
    return client.post(path, json={"model": "tiny", **asked, **fields})


def lines(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.headers["content-type"] == "application/x-ndjson", answer.text
    assert answer.text.endswith("\n")
    return [json.loads(line) for line in answer.text.removesuffix("\n").split("\n")]  # none of them is empty


def refused(answer: httpx.Response, status: int = 400) -> str:
    assert answer.status_code == status, answer.text
    (name,) = answer.json()
    assert name == "error"
    return str(answer.json()[name])


def test_a_chat_tells_thinking_text_and_calls_apart(found: ollama.Client) -> None:
    whole = found.chat("tiny", ASKED, tools=[WEATHER])
    message = whole.message
    assert (message.thinking, (message.content or "").strip()) == ("So.", "I look.")
    assert [call.function.name for call in message.tool_calls or ()] == ["weather", "weather"]
    assert [call.function.arguments for call in message.tool_calls or ()] == [{"town": "Rome"}] * 2
    assert (whole.done, whole.done_reason, whole.model) == (True, "stop", "tiny")
    assert (whole.prompt_eval_count, whole.eval_count, whole.eval_duration) == (9, len(WORDS), 100_000_000)


def test_a_stream_adds_up_to_the_reply(found: ollama.Client) -> None:
    whole = found.chat("tiny", ASKED, tools=[WEATHER]).message
    chunks = [*found.chat("tiny", ASKED, tools=[WEATHER], stream=True)]
    assert "".join(chunk.message.content or "" for chunk in chunks) == whole.content
    assert "".join(chunk.message.thinking or "" for chunk in chunks) == whole.thinking
    calls = [call for chunk in chunks for call in chunk.message.tool_calls or ()]
    assert [call.function.arguments for call in calls] == [{"town": "Rome"}] * 2  # each whole, in one line
    assert [chunk.done for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].total_duration == 100_000_000


def test_tools_in_a_row(found: ollama.Client, served: Running) -> None:
    messages: list[Any] = list(ASKED)
    for _ in range(3):
        message = found.chat("tiny", messages, tools=[WEATHER]).message
        results = [
            {"role": "tool", "tool_name": "weather", "content": "rain"} for _ in message.tool_calls or ()
        ]
        messages += [message, *results]
    asked = served.hub.asked[-1].messages
    assert [one.role for one in asked] == ["user", *["assistant", "tool", "tool"] * 2]
    assert (asked[1].reasoning, asked[1].tool_calls[0].values()) == ("So.", {"town": "Rome"})
    assert asked[2].name == "weather"


def test_a_prompt_is_a_chat_of_one_message(found: ollama.Client, served: Running) -> None:
    whole = found.generate("tiny", "Hi", system="Be brief.")
    assert (whole.thinking, whole.response.startswith("I look.")) == ("So.", True)
    assert [one.role for one in served.hub.asked[-1].messages] == ["system", "user"]
    pieces = [*found.generate("tiny", "Hi", stream=True)]
    assert "".join(piece.response or "" for piece in pieces) == found.generate("tiny", "Hi").response


def test_a_raw_prompt_is_continued_as_it_stands(found: ollama.Client, served: Running) -> None:
    whole = found.generate("tiny", "<|im_start|>", raw=True)
    assert whole.response == "".join(WORDS)
    assert served.hub.asked[-1].text == "<|im_start|>"
    assert served.hub.asked[-1].parse_special


def test_options_are_values_of_sampling(found: ollama.Client, served: Running) -> None:
    options = {
        "temperature": 0.5, "top_k": 3, "top_p": 0.9, "min_p": 0.1, "typical_p": 0.8, "repeat_penalty": 1.2,
        "seed": 7, "num_predict": 5, "stop": ["END"], "num_ctx": 8192, "num_gpu": 99, "num_thread": 8,
        "mirostat": 2, "mirostat_tau": 4.0,
    }  # fmt: skip
    found.chat("tiny", ASKED, options=options, keep_alive="5m")
    asked = served.hub.asked[-1]
    drawn = asked.sampling
    assert (drawn.temperature, drawn.top_k, drawn.top_p, drawn.min_p) == (0.5, 3, 0.9, 0.1)
    assert (drawn.typical, drawn.repetition_penalty, drawn.seed, drawn.mirostat) == (0.8, 1.2, 7, 4.0)
    assert (asked.max_tokens, asked.stop) == (5, ("END",))
    found.chat("tiny", ASKED, options={"num_predict": -1, "seed": -1, "repeat_last_n": 64})
    assert served.hub.asked[-1].max_tokens is None


@pytest.mark.parametrize(
    ("think", "effort"), [(True, "medium"), (False, "none"), ("low", "low"), ("max", "xhigh"), (None, None)]
)
def test_thinking_is_an_effort(client: httpx.Client, served: Running, think: Any, effort: str | None) -> None:
    assert post(client, think=think, stream=False).status_code == 200
    assert served.hub.asked[-1].reasoning_effort == effort


def test_a_form_is_json_or_a_schema(client: httpx.Client, served: Running) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    for form in ("json", schema):
        assert post(client, format=form, stream=False).status_code == 200
        assert served.hub.asked[-1].grammar is not None
    assert post(client, format="", stream=False).status_code == 200
    assert served.hub.asked[-1].grammar is None
    assert "format should be" in refused(post(client, format="xml"))


def test_names_may_end_in_latest(client: httpx.Client, served: Running) -> None:
    answer = post(client, model="tiny:latest", stream=False)
    assert answer.json()["model"] == "tiny:latest"
    assert served.hub.asked[-1].model == "tiny"


def test_log_probabilities_come_with_the_text(found: ollama.Client) -> None:
    whole = found.chat("tiny", ASKED, logprobs=True, top_logprobs=2)
    assert whole.logprobs is not None
    assert "I look. " in [one.token for one in whole.logprobs]
    assert all(len(one.top_logprobs or ()) == 2 for one in whole.logprobs)


def test_a_body_without_a_question_opens_the_model(found: ollama.Client, served: Running) -> None:
    whole = found.generate("tiny")
    assert (whole.done, whole.done_reason, whole.response) == (True, "load", "")
    assert found.chat("tiny").done_reason == "load"
    assert served.hub.loaded == ["tiny", "tiny"]


def test_the_body_may_come_as_curl_sends_it(client: httpx.Client) -> None:
    kind = {"content-type": "application/x-www-form-urlencoded"}
    answer = client.post("/api/chat", content=json.dumps({"model": "tiny", "messages": ASKED}), headers=kind)
    assert lines(answer)[-1]["done_reason"] == "stop"


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        ("/api/chat", {"model": ""}, "model"),
        ("/api/chat", {"messages": [{"role": "robot"}]}, "messages[0].role"),
        (
            "/api/chat",
            {"messages": [{"role": "user", "content": "x", "images": ["AA=="]}]},
            "read text alone",
        ),
        ("/api/chat", {"options": {"temprature": 1}}, "unknown option temprature"),
        ("/api/chat", {"options": {"temperature": "warm"}}, "temperature"),
        ("/api/chat", {"options": {"mirostat": 1}}, "options.mirostat should be 0 or 2"),
        ("/api/chat", {"options": {"repeat_last_n": 64, "repeat_penalty": 1.1}}, "options.repeat_last_n"),
        ("/api/chat", {"think": "deep"}, "think"),
        ("/api/generate", {"images": ["AA=="]}, "images is not supported"),
        ("/api/generate", {"context": [1, 2]}, "context is not supported"),
        ("/api/generate", {"template": "{{ .Prompt }}"}, "template is not supported"),
        ("/api/generate", {"prompt": "", "keep_alive": 0}, "not on request"),
    ],
    ids=str,
)
def test_a_wrong_field_is_named(client: httpx.Client, path: str, fields: dict[str, Any], words: str) -> None:
    assert words in refused(post(client, path, **fields))


def test_errors_have_ollamas_form(found: ollama.Client, client: httpx.Client) -> None:
    with pytest.raises(ollama.ResponseError, match="no model") as raised:
        found.chat("other", ASKED)
    assert raised.value.status_code == 404
    gone = client.request("DELETE", "/api/delete", json={"model": "tiny"})
    assert "cannot remove models" in refused(gone, 403)
    assert "no such path" in refused(client.post("/api/create", json={}), 404)


def test_an_error_within_a_stream_is_a_line() -> None:
    with (
        running(FakeHub(late_error=RuntimeError("secret words"))) as server,
        ollama.Client(host=server.url, trust_env=False) as client,
        pytest.raises(ollama.ResponseError, match="its log says more"),
    ):
        list(client.chat("tiny", ASKED, stream=True))


def test_a_client_that_goes_away_cancels_its_reply() -> None:
    with running(FakeHub(words=("word ",) * 500, pause_s=0.02)) as server:
        with ollama.Client(host=server.url, trust_env=False) as client:
            stream = client.chat("tiny", ASKED, stream=True)
            next(iter(stream))
            stream.close()  # type: ignore[attr-defined]
        assert eventually(lambda: server.hub.tickets[-1].cancelled)


def test_the_version_is_one_that_clients_take(client: httpx.Client) -> None:
    version = client.get("/api/version").json()["version"]
    assert [int(part) for part in version.split(".")] >= [0, 6, 4]
