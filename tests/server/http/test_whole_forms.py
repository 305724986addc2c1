"""A tiny model behind the other interfaces of the server: the same replies, and the same counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from edgedec.export import export_gguf
from edgedec.models import Store
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.server.fakes import Running, running
from tests.server.work.hubs import hub_of, store_of

ASKED = [{"role": "user", "content": "What is a cat?"}]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("forms")
    store = store_of(folder, tiny="llama")
    named = {f"tokenizer.ggml.fim_{name}_token_id": at for at, name in enumerate(("pre", "suf", "mid"), 3)}
    gap = write_tiny(folder / "gap.gguf", "llama", shape=TinyShape(context=512), extra=named)
    export_gguf(gap, store.home / "models" / "gap")
    return store


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


GREEDY = {"temperature": 0, "model": "gap"}


def test_tokens_and_texts_turn_into_each_other(client: httpx.Client) -> None:
    for text in ("a cat", "caf\u00e9 \U0001f408", "<|im_end|>"):
        ids = answered(client, "/tokenize", content=text, parse_special=False)["tokens"]
        assert answered(client, "/detokenize", tokens=ids) == {"content": text}
        pieces = answered(client, "/tokenize", content=text, parse_special=False, with_pieces=True)["tokens"]
        assert [one["id"] for one in pieces] == ids
        whole = [
            one["piece"].encode() if isinstance(one["piece"], str) else bytes(one["piece"]) for one in pieces
        ]
        assert b"".join(whole).decode() == text
    assert len(answered(client, "/tokenize", content="<|im_end|>")["tokens"]) == 1
    assert answered(client, "/detokenize", tokens=[2]) == {"content": "<|im_end|>"}
    beginning = answered(client, "/tokenize", content="a", add_special=True)["tokens"]
    assert len(beginning) == 1 + len(answered(client, "/tokenize", content="a")["tokens"])


def test_a_template_makes_the_prompt_of_a_chat(client: httpx.Client) -> None:
    prompt = answered(client, "/apply-template", messages=ASKED)["prompt"]
    assert prompt == "<|im_start|>user\nWhat is a cat?<|im_end|>\n<|im_start|>assistant\n"
    ids = answered(client, "/tokenize", content=prompt)["tokens"]
    usage = answered(client, "/v1/chat/completions", messages=ASKED, max_tokens=1)["usage"]
    assert usage["prompt_tokens"] == len(ids)


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        ("/tokenize", {}, "content is missing"),
        ("/tokenize", {"content": "a " * 50_000}, "the context holds 512"),
        ("/tokenize", {"content": "a", "model": "none"}, "none"),
        ("/detokenize", {"tokens": [1, 10**9]}, "there is no token 1000000000"),
        ("/detokenize", {"tokens": [-1]}, "there is no token -1"),
        ("/apply-template", {"messages": []}, "messages is empty"),
        ("/infill", {"model": "gap"}, "no text around the gap"),
        ("/infill", {"input_prefix": "a"}, "no tokens for the text between two others"),
        (
            "/infill",
            {"input_prefix": "a", "input_extra": [{"filename": "x"}]},
            "input_extra[0].text is missing",
        ),
        ("/infill", {"input_prefix": "a", "temprature": 1}, "unknown field temprature"),
    ],
)
def test_a_wrong_field_is_named(client: httpx.Client, path: str, fields: dict[str, Any], words: str) -> None:
    answer = client.post(path, json=fields)
    assert answer.status_code in (400, 404)
    assert words in answer.json()["error"]["message"]


def test_a_gap_is_filled_alike_in_each_interface(client: httpx.Client) -> None:
    around = {"input_prefix": "a cat", "input_suffix": "dog"}
    found = answered(client, "/infill", **around, **GREEDY, n_predict=8)
    assert (found["stop"], found["tokens_predicted"], found["stop_type"]) == (True, 8, "limit")
    body = {"prompt": "a cat", "suffix": "dog", "max_tokens": 8, **GREEDY}
    assert answered(client, "/v1/completions", **body)["choices"][0]["text"] == found["content"]
    options = {"temperature": 0, "num_predict": 8}
    own = {"model": "gap", "prompt": "a cat", "suffix": "dog", "options": options, "stream": False}
    assert answered(client, "/api/generate", **own)["response"] == found["content"]


def test_models_that_fill_gaps_say_so(client: httpx.Client) -> None:
    assert "insert" in answered(client, "/api/show", model="gap")["capabilities"]
    assert "insert" not in answered(client, "/api/show", model="tiny")["capabilities"]


def test_a_stream_of_a_gap_adds_up(client: httpx.Client) -> None:
    around = {"input_prefix": "a cat", "input_suffix": "dog", "prompt": " and", **GREEDY, "n_predict": 8}
    whole = answered(client, "/infill", **around)
    answer = client.post("/infill", json={**around, "stream": True})
    pieces = [json.loads(one.removeprefix("data: ")) for one in answer.text.strip().split("\n\n")]
    assert "".join(one["content"] for one in pieces) == whole["content"]
    assert [one["stop"] for one in pieces] == [False] * (len(pieces) - 1) + [True]


def test_the_beginning_of_a_gap_and_other_files_change_it(client: httpx.Client) -> None:
    around = {"input_prefix": "a cat", "input_suffix": "dog", **GREEDY}
    counts = [
        answered(client, "/infill", **around, **more, n_predict=1)["tokens_evaluated"]
        for more in ({}, {"prompt": " and"}, {"input_extra": [{"filename": "x.py", "text": "import os"}]})
    ]
    assert counts[0] < counts[1] < counts[2]


def test_texts_may_be_read_ahead(client: httpx.Client) -> None:
    """As editors ask, which send fields of llama.cpp's and want no text yet."""
    around = {"input_prefix": "another cat", "input_suffix": "dog", **GREEDY}
    editor = {
        "samplers": ["top_k", "top_p", "infill"],
        "cache_prompt": True,
        "t_max_prompt_ms": 500,
        "n_indent": 4,
    }
    first = answered(client, "/infill", **around, **editor, n_predict=0)
    assert (first["content"], first["tokens_predicted"]) == ("", 0)
    assert answered(client, "/infill", **around, n_predict=2)["tokens_cached"] > 0


def test_a_gap_inside_a_token_goes_on_with_its_text(client: httpx.Client) -> None:
    """Alike in all interfaces, as pieces and with offsets that count the text that was added."""
    around = {"input_prefix": "a cat, th", "input_suffix": "dog"}
    for seed in range(12):
        how = {"temperature": 1.0, "seed": seed, "model": "gap"}
        found = answered(client, "/infill", **around, **how, n_predict=6)
        body = {"prompt": "a cat, th", "suffix": "dog", "max_tokens": 6, **how}
        [choice] = answered(client, "/v1/completions", **body, logprobs=1)["choices"]
        assert choice["text"] == found["content"]
        offsets = choice["logprobs"]["text_offset"]
        assert offsets[0] == 0
        assert offsets == sorted(offsets)
        assert offsets[-1] <= len(choice["text"])
        assert found["tokens_predicted"] == len(offsets) or found["stop_type"] == "eos"
        streamed = client.post("/v1/completions", json={**body, "stream": True}).text
        chunks = [json.loads(one[6:]) for one in streamed.strip().split("\n\n") if not one.endswith("[DONE]")]
        assert "".join(one["choices"][0]["text"] for one in chunks if one["choices"]) == choice["text"]
