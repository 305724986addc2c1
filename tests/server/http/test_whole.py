"""A tiny model behind the server: the replies are those of the Python API, whoever else asks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from edgedec.export import export_gguf
from edgedec.models import Store
from edgedec.sampling.named import SamplingParams
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.server.fakes import Running, running
from tests.server.http.test_chat import frames, refused
from tests.server.work.hubs import Alone, hub_of, store_of

ASKED = [{"role": "user", "content": "What is a cat?"}]
MOST = 12


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("whole")
    store = store_of(folder, tiny="llama", other="gemma3")
    source = write_tiny(folder / "base.gguf", "llama", shape=TinyShape(context=512), chat_template=False)
    export_gguf(source, store.home / "models" / "base")
    return store


@pytest.fixture(scope="module")
def alone(store: Store) -> Iterator[Alone]:
    found = Alone(store)
    with found.model:
        yield found


@pytest.fixture(scope="module")
def one_server(store: Store) -> Iterator[Running]:
    with running(hub_of(store)) as server:
        yield server


@pytest.fixture
def served(one_server: Running) -> Running:
    return one_server


@pytest.fixture(scope="module")
def client_of_openai(one_server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{one_server.url}/v1", api_key="none", max_retries=0) as found:
        yield found


def text_alone(alone: Alone, seed: int = 0, temperature: float = 0.8) -> str:
    """The reply to ``ASKED`` of the model alone."""
    sampling = SamplingParams(temperature=temperature, seed=seed)
    return alone.model.chat(messages=ASKED, sampling=sampling, max_tokens=MOST).reply().read()


def asks(**fields: Any) -> dict[str, Any]:
    return {"messages": ASKED, "max_tokens": MOST, "temperature": 0.8, "seed": 0, **fields}


def content(answer: httpx.Response) -> list[str]:
    return [one["message"]["content"] for one in answer.json()["choices"]]


@pytest.mark.parametrize(("temperature", "seed"), [(0, 0), (0.8, 5)])
def test_a_chat_has_the_reply_of_the_api(
    client: httpx.Client, alone: Alone, temperature: float, seed: int
) -> None:
    body = asks(temperature=temperature, seed=seed)
    wanted = text_alone(alone, seed, temperature)
    assert wanted
    assert content(client.post("/v1/chat/completions", json=body)) == [wanted]
    chunks = frames(client.post("/v1/chat/completions", json={**body, "stream": True}))
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == wanted


def test_sample_i_has_the_seed_plus_i(client: httpx.Client, alone: Alone) -> None:
    answer = client.post("/v1/chat/completions", json=asks(n=3, seed=7))
    assert content(answer) == [text_alone(alone, 7 + number) for number in range(3)]


def test_a_completion_has_the_text_and_log_probabilities_of_the_api(
    client: httpx.Client, alone: Alone
) -> None:
    greedy = SamplingParams.greedy()
    reply = alone.model.complete("the cat", sampling=greedy, max_tokens=5, logprobs=2)
    body = {"prompt": "the cat", "max_tokens": 5, "temperature": 0, "logprobs": 2}
    choice = client.post("/v1/completions", json=body).json()["choices"][0]
    assert choice["text"] == reply.read()
    whole = [one for one in reply.logprobs if one.text.encode() == one.raw]
    assert [one for one in choice["logprobs"]["tokens"] if "bytes:" not in one] == [one.text for one in whole]
    assert len(whole) < len(choice["logprobs"]["tokens"]) == len(reply.logprobs)
    found = pytest.approx([one.logprob for one in reply.logprobs])
    assert choice["logprobs"]["token_logprobs"] == found


def test_another_model_is_opened_when_it_is_named(client: httpx.Client) -> None:
    listed = {one["id"]: one["edgedec"] for one in client.get("/v1/models").json()["data"]}
    assert set(listed) == {"tiny", "other", "base"}
    answer = client.post("/v1/completions", json={"model": "other", "prompt": "a", "max_tokens": 2}).json()
    assert answer["model"] == "other"
    assert client.get("/v1/models/other").json()["edgedec"]["loaded"]
    error = refused(client.post("/v1/completions", json={"model": "none", "prompt": "a"}), 404)
    assert error["code"] == "model_not_found"


def test_a_base_model_continues_texts_and_does_not_chat(client: httpx.Client) -> None:
    assert not client.get("/v1/models/base").json()["edgedec"]["chat"]
    error = refused(client.post("/v1/chat/completions", json=asks(model="base")))
    assert "is a base model" in error["message"]
    body = {"model": "base", "prompt": "a", "max_tokens": 2}
    assert client.post("/v1/completions", json=body).status_code == 200


def test_a_prompt_that_does_not_fit_is_refused(client: httpx.Client) -> None:
    answer = client.post("/v1/completions", json={"prompt": "the cat " * 2000})
    assert refused(answer)["code"] == "context_length_exceeded"
    answer = client.post("/v1/completions", json={"prompt": "x", "stream": True, "logit_bias": {"999999": 1}})
    assert refused(answer)["type"] == "invalid_request_error"


def test_a_form_that_a_limit_cuts_is_the_text_so_far(
    client: httpx.Client, client_of_openai: openai.OpenAI
) -> None:
    schema = {"type": "object", "properties": {"a": {"const": "x" * 50}}, "required": ["a"]}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    body = asks(max_tokens=3, response_format=form, n=2)
    answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    assert [one["finish_reason"] for one in answer.json()["choices"]] == ["length", "length"]
    assert all(text.startswith("{") for text in content(answer))
    assert frames(client.post("/v1/chat/completions", json={**body, "stream": True}))
    with pytest.raises(openai.LengthFinishReasonError):
        client_of_openai.chat.completions.parse(**asks(model="tiny", max_tokens=3, response_format=form))
    text: Any = {"format": {"type": "json_schema", "name": "x", "schema": schema}}
    response = client_of_openai.responses.create(model="tiny", input="Hi", max_output_tokens=3, text=text)
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.output_text.startswith("{")


@pytest.mark.parametrize("model", ["tiny", "other"])
def test_system_messages_are_read_wherever_they_stand(client: httpx.Client, model: str) -> None:
    def tokens(*turns: tuple[str, str]) -> int:
        messages = [{"role": role, "content": text} for role, text in turns]
        answer = client.post("/v1/chat/completions", json=asks(model=model, messages=messages, max_tokens=1))
        assert answer.status_code == 200, answer.text
        return int(answer.json()["usage"]["prompt_tokens"])

    one = tokens(("system", "the cat"), ("user", "the cat"))
    several = tokens(("system", "the cat"), ("developer", "the cat"), ("user", "the cat"))
    later = tokens(("system", "the cat"), ("user", "the cat"), ("system", "the cat"))
    assert one < several
    assert one < later


def test_text_that_never_fits_is_told_before_it_takes_memory(client: httpx.Client) -> None:
    for path, given in (
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "word " * 800_000}]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "word " * 8_000}] * 90}),
        ("/v1/completions", {"prompt": "word " * 800_000}),
    ):
        error = refused(client.post(path, json=given))
        assert error["code"] == "context_length_exceeded"
        assert "the context holds 512" in error["message"]


def test_status_tells_slots_and_memory(client: httpx.Client) -> None:
    client.post("/v1/chat/completions", json=asks())
    status = client.get("/edgedec/status").json()
    assert status["memory_bytes"] > 0
    assert status["models"][0]["slots"]
    assert status["completion_tokens"] > 0


def test_openais_client_talks_and_streams(client_of_openai: openai.OpenAI, alone: Alone) -> None:
    body = asks(model="tiny", n=2)
    whole = client_of_openai.chat.completions.create(**body)
    assert whole.choices[0].message.content == text_alone(alone)
    pieces = client_of_openai.chat.completions.create(
        **asks(model="tiny"), stream=True, stream_options={"include_usage": True}
    )
    chunks = list(pieces)
    assert "".join(one.choices[0].delta.content or "" for one in chunks if one.choices) == text_alone(alone)
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == MOST


def test_openais_client_has_completions_models_and_responses(client_of_openai: openai.OpenAI) -> None:
    made = client_of_openai.completions.create(model="tiny", prompt="the cat", max_tokens=3, logprobs=1)
    assert made.choices[0].logprobs is not None
    assert [one.id for one in client_of_openai.models.list()] == ["tiny", "base", "other"]
    fixed = {"model": "tiny", "input": "Hi", "max_output_tokens": 5, "temperature": 0}
    response = client_of_openai.responses.create(**fixed)
    assert response.status == "incomplete"
    with client_of_openai.responses.stream(**fixed) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
    assert text == response.output_text


def test_openais_client_raises_its_own_errors(client_of_openai: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="none"):
        client_of_openai.chat.completions.create(**asks(model="none"))
    with pytest.raises(openai.BadRequestError) as raised:
        client_of_openai.chat.completions.create(**asks(model="tiny", top_p=7))
    assert raised.value.param == "top_p"
    with pytest.raises(openai.BadRequestError):
        client_of_openai.embeddings.create(model="tiny", input="x")


def test_openais_async_client_asks_several_at_once(served: Running, alone: Alone) -> None:
    async def ask() -> list[str | None]:
        async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none") as found:
            replies = [found.chat.completions.create(**asks(model="tiny", seed=seed)) for seed in range(16)]
            return [one.choices[0].message.content for one in await asyncio.gather(*replies)]

    assert asyncio.run(ask()) == [text_alone(alone, seed) for seed in range(16)]
