"""A tiny model behind the other interfaces of the server: the same replies, and the same counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from edgedec.models import Store
from tests.server.fakes import Running, running
from tests.server.work.hubs import hub_of, store_of

ASKED = [{"role": "user", "content": "What is a cat?"}]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return store_of(tmp_path_factory.mktemp("forms"), tiny="llama")


@pytest.fixture(scope="module")
def one_server(store: Store) -> Iterator[Running]:
    with running(hub_of(store)) as server:
        yield server


@pytest.fixture
def served(one_server: Running) -> Running:
    return one_server


def answered(client: httpx.Client, path: str, **fields: Any) -> Any:
    answer = client.post(path, json=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def text_of(client: httpx.Client, **fields: Any) -> str:
    """The reply in OpenAI's form."""
    body = {"messages": ASKED, "temperature": 0, "max_tokens": 12, **fields}
    found = answered(client, "/v1/chat/completions", **body)
    return str(found["choices"][0]["message"]["content"])


def test_a_message_has_the_text_of_a_chat(client: httpx.Client) -> None:
    wanted = text_of(client)
    found = answered(client, "/v1/messages", messages=ASKED, temperature=0, max_tokens=12)
    assert "".join(block["text"] for block in found["content"]) == wanted
    assert found["stop_reason"] == "max_tokens"


def test_tokens_are_counted_as_a_message_reads_them(client: httpx.Client) -> None:
    fields = {"messages": ASKED, "system": [{"type": "text", "text": "Be brief."}]}
    usage = answered(client, "/v1/messages", **fields, max_tokens=1)["usage"]
    count = answered(client, "/v1/messages/count_tokens", **fields)
    assert count == {"input_tokens": usage["input_tokens"] + usage["cache_read_input_tokens"]}


def test_a_stop_sequence_ends_a_message_and_is_named(client: httpx.Client) -> None:
    whole = text_of(client, max_tokens=40)
    stop = whole[8:11]
    fields = {"messages": ASKED, "temperature": 0, "max_tokens": 40, "stop_sequences": ["\x00none", stop]}
    found = answered(client, "/v1/messages", **fields)
    assert found["content"][0]["text"] == whole[: whole.index(stop)]
    assert (found["stop_reason"], found["stop_sequence"]) == ("stop_sequence", stop)


def test_the_beginning_of_a_message_is_gone_on_with(client: httpx.Client) -> None:
    whole = text_of(client, max_tokens=20)
    begun = [*ASKED, {"role": "assistant", "content": whole[:6]}]
    found = answered(client, "/v1/messages", messages=begun, temperature=0, max_tokens=12)
    assert found["content"][0]["text"]


def test_a_prompt_that_is_too_long_is_told_in_words_that_clients_know(client: httpx.Client) -> None:
    long = [{"role": "user", "content": "cat " * 5000}]
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        answer = client.post(path, json={"messages": long, "max_tokens": 5})
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].startswith("prompt is too long: ")
