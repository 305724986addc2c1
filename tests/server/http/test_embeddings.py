"""Vectors and scores over HTTP: OpenAI's client, Jina's form, and errors that say what is wrong."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import openai
import pytest

from edgedec.assemble.config import RunConfig
from edgedec.core.errors import MemoryBudgetError
from edgedec.embed.encoder import load_encoder
from edgedec.export import export_huggingface
from edgedec.models import Store
from edgedec.server.work.hub import Hub
from tests.fixtures.later import later
from tests.fixtures.tiny_bert import TEXTS, write_bert
from tests.server.fakes import Running, running

if TYPE_CHECKING:
    import ollama
else:
    ollama = later("ollama")

RANKER = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    home = tmp_path_factory.mktemp("store")
    models = {"tiny-bert": {}, "tiny-ranker": RANKER}
    for name, config in models.items():
        directory = write_bert(home / f"{name}-files", config=config, prompts={"query": "why is "})
        export_huggingface(directory, home / "models" / name, name=name)
    return Store(home)


@pytest.fixture(scope="module")
def served(store: Store) -> Iterator[Running]:
    hub = Hub(["tiny-bert"], RunConfig(threads=1), store=store)
    hub.load()
    with running(hub) as server:
        yield server


@pytest.fixture
def client(served: Running) -> Iterator[httpx.Client]:
    with served.client() as found:
        yield found


def vectors(store: Store, texts: list[str], **options: Any) -> np.ndarray[Any, Any]:
    return load_encoder(store.path("tiny-bert"), threads=1).embed(texts, **options).vectors


def test_openais_client_gets_vectors(served: Running, store: Store) -> None:
    texts = [text for text in TEXTS if text]
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
        found = client.embeddings.create(model="tiny-bert", input=texts)  # asks for base64
        short = client.embeddings.create(model="tiny-bert", input="a cat", dimensions=16)
        plain = client.embeddings.create(model="tiny-bert", input=texts, encoding_format="float")
        assert "tiny-bert" in [one.id for one in client.models.list()]
        with pytest.raises(openai.NotFoundError):
            client.embeddings.create(model="text-embedding-3-small", input="a cat")
    expected = vectors(store, texts)
    assert [one.index for one in found.data] == list(range(len(texts)))
    np.testing.assert_array_equal(np.array([one.embedding for one in found.data], np.float32), expected)
    np.testing.assert_array_equal(np.array([one.embedding for one in plain.data], np.float32), expected)
    np.testing.assert_array_equal(
        np.array(short.data[0].embedding, np.float32), vectors(store, ["a cat"], dimensions=16)[0]
    )
    assert found.usage.total_tokens == found.usage.prompt_tokens > len(texts)


def test_inputs_are_texts_or_token_ids_and_have_a_kind(client: httpx.Client, store: Store) -> None:
    def asked(**body: Any) -> np.ndarray[Any, Any]:
        answer = client.post("/v1/embeddings", json=body)
        assert answer.status_code == 200, answer.text
        return np.array([one["embedding"] for one in answer.json()["data"]], np.float32)

    expected = vectors(store, ["the cat"])
    np.testing.assert_array_equal(asked(input="the cat"), expected)
    np.testing.assert_array_equal(asked(input=[2, 5, 7, 3]), expected)
    np.testing.assert_array_equal(asked(input=[[2, 5, 7, 3], "the cat"]), np.repeat(expected, 2, axis=0))
    np.testing.assert_array_equal(asked(input="blue", input_type="query"), vectors(store, ["why is blue"]))
    plain = asked(input="blue", input_type="passage", user="me")
    np.testing.assert_array_equal(plain, vectors(store, ["blue"]))
    encoded = client.post("/v1/embeddings", json={"input": "the cat", "encoding_format": "base64"}).json()
    raw = base64.b64decode(encoded["data"][0]["embedding"])
    np.testing.assert_array_equal(np.frombuffer(raw, "<f4"), expected[0])


@pytest.mark.parametrize(("body", "param", "words"), [
    ({}, "input", "is missing"),
    ({"input": []}, "input", "1 to 2048 texts"),
    ({"input": ""}, "input[0]", "is empty"),
    ({"input": ["a", 1.5]}, "input[1]", "a text, or a list of token ids"),
    ({"input": [["a"]]}, "input[0]", "a text, or a list of token ids"),
    ({"input": ["a"] * 2049}, "input", "not 2049"),
    ({"input": [9999]}, None, "outside the vocabulary"),
    ({"input": "a", "dimensions": 0}, "dimensions", "greater than or equal to 1"),
    ({"input": "a", "dimensions": 65}, None, "1 to 64 dimensions"),
    ({"input": "a", "encoding_format": "hex"}, "encoding_format", "'float' or 'base64'"),
    ({"input": "a", "input_type": "song"}, "input_type", "should be one of query"),
    ({"input": "a", "dimension": 3}, "dimension", "did you mean dimensions?"),
    ({"input": "a", "model": "tiny-ranker"}, None, "is a reranker"),
])  # fmt: skip
def test_a_wrong_request_is_named(client: httpx.Client, body: Any, param: str | None, words: str) -> None:
    answer = client.post("/v1/embeddings", json=body)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["param"] == param
    assert words in error["message"]
    assert error["type"] == "invalid_request_error"


def test_documents_are_ranked(client: httpx.Client, store: Store) -> None:
    documents = ["the cat sat", "sky", {"text": "blue sky ."}, "a dog"]
    body = {"model": "tiny-ranker", "query": "why is the sky blue", "documents": documents}
    whole = client.post("/v1/rerank", json=body).json()
    texts = [one if isinstance(one, str) else one["text"] for one in documents]
    encoder = load_encoder(store.path("tiny-ranker"), threads=1)
    scores = encoder.rank("why is the sky blue", texts).vectors[:, 0]
    assert [one["index"] for one in whole["results"]] == np.argsort(-scores, kind="stable").tolist()
    assert [one["relevance_score"] for one in whole["results"]] == sorted(map(float, scores), reverse=True)
    some = client.post("/v1/rerank", json={**body, "top_n": 2, "return_documents": True}).json()["results"]
    assert [one["document"]["text"] for one in some] == [texts[one["index"]] for one in some]
    assert len(some) == 2
    by_vectors = client.post("/v1/rerank", json={**body, "model": "tiny-bert"}).json()["results"]
    assert len(by_vectors) == 4


@pytest.mark.parametrize(("more", "words"), [
    ({"documents": []}, "at least 1 item"),
    ({"query": ""}, "at least 1 character"),
    ({"top_n": 0}, "greater"),
    ({"documents": [3]}, "documents[0] should be a text"),
    ({"documents": [{"title": "x"}]}, "documents[0].text"),
    ({"rank_fields": ["a"]}, "rank_fields is not supported"), ({"top_k": 3}, "unknown field top_k"),
])  # fmt: skip
def test_a_wrong_ranking_is_named(client: httpx.Client, more: Any, words: str) -> None:
    answer = client.post("/v1/rerank", json={"query": "a", "documents": ["b"], **more})
    assert answer.status_code == 400, answer.text
    assert words in answer.json()["error"]["message"]


def test_the_log_has_tokens_and_no_text(served: Running, client: httpx.Client) -> None:
    answer = client.post("/v1/embeddings", json={"input": "the blue cat"})
    line = served.line_of(answer)
    assert line["model"] == "tiny-bert"
    assert line["prompt_tokens"] == 5
    assert "blue" not in served.lines.getvalue()


def test_an_encoder_is_listed_and_gives_no_replies(client: httpx.Client) -> None:
    models = {one["id"]: one for one in client.get("/v1/models").json()["data"]}
    assert models["tiny-bert"]["edgedec"]["dimensions"] == 64
    assert models["tiny-bert"]["edgedec"]["loaded"]
    body = {"model": "tiny-bert", "messages": [{"role": "user", "content": "hi"}]}
    answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert "makes vectors of texts and no replies" in answer.json()["error"]["message"]


def test_a_budget_holds_for_encoders_too(store: Store) -> None:
    hub = Hub(["tiny-bert"], RunConfig(threads=1, memory=4_000_000), store=store)
    try:
        with pytest.raises(MemoryBudgetError, match="too small for tiny-bert"):
            hub.load()
    finally:
        hub.close()
    hub = Hub(["tiny-bert"], RunConfig(threads=1, memory=2_000_000_000), store=store)
    try:
        assert hub.encode(None, lambda encoder: encoder.plan.budget)[1] == 2_000_000_000
        assert hub.encode("tiny-ranker", lambda encoder: encoder.plan.budget or 0)[1] < 2_000_000_000
    finally:
        hub.close()


def test_a_folder_that_is_no_store_of_it_is_named(client: httpx.Client, tmp_path: Path) -> None:
    answer = client.post("/v1/embeddings", json={"input": "a", "model": str(tmp_path)})
    assert answer.status_code == 404


def test_ollamas_client_gets_the_same_vectors(served: Running, client: httpx.Client) -> None:
    texts = ["a cat", "two dogs"]
    wanted = client.post("/v1/embeddings", json={"model": "tiny-bert", "input": texts}).json()["data"]
    with ollama.Client(host=served.url, trust_env=False) as found:
        answer = found.embed("tiny-bert:latest", texts)
        assert [list(one) for one in answer.embeddings] == [one["embedding"] for one in wanted]
        assert found.embed("tiny-bert", "a cat").embeddings == answer.embeddings[:1]
        with pytest.raises(ollama.ResponseError, match="longer than the model reads"):
            found.embed("tiny-bert", "cat " * 5000, truncate=False)
