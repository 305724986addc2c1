"""Tiny models on a loopback hub, from their names to a reply: the whole program in processes of its own."""

from __future__ import annotations

import json
import subprocess
from collections import deque
from pathlib import Path

import pytest

from edgedec.bundle.manifest import Manifest
from tests.fixtures import warm
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_huggingface import write_huggingface
from tests.models.conftest import tree
from tests.models.test_hub import Hub, hub

__all__ = ["hub"]


def edgedec(hub: Hub, *args: str) -> subprocess.CompletedProcess[str]:
    return warm.run(warm.EDGEDEC, *args, env={**hub.environment, "EDGEDEC_HOME": str(hub.home)})


def files_of(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir()}


@pytest.fixture
def safetensors(hub: Hub, tmp_path: Path) -> dict[str, bytes]:
    """The files of a tiny Hugging Face model, with others that no export reads."""
    source = write_huggingface(tmp_path / "tiny", write_tiny(tmp_path / "tiny.gguf", "qwen3"))
    return {**files_of(source), "README.md": b"# Tiny", "onnx/model.onnx": b"large"}


def test_chat_with_a_repository_pulls_its_usual_file_and_replies(hub: Hub, tmp_path: Path) -> None:
    data = write_tiny(tmp_path / "tiny.gguf").read_bytes()
    commit = hub.site.add_repository("Owner/Tiny-GGUF", {"Tiny-Q4_K_M.gguf": data, "Tiny-F16.gguf": b"no"})
    first = edgedec(hub, "generate", "-m", "Owner/Tiny-GGUF", "Hi", "--max-tokens", "4", "--json")
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["stats"]["completion_tokens"] == 4
    source = Manifest.load(hub.home / "models" / "Owner--Tiny-GGUF--Tiny-Q4_K_M").source
    assert (source["repo"], source["revision"]) == ("Owner/Tiny-GGUF", commit)
    assert source["repo_file"] == "Tiny-Q4_K_M.gguf"
    before = len(hub.site.requests)
    again = edgedec(hub, "run", "hf.co/owner/tiny-gguf:Q4_K_M", "Hi", "--max-tokens", "4")
    assert again.returncode == 0, again.stderr
    assert len(hub.site.requests) == before
    removed = edgedec(hub, "rm", "Owner/Tiny-GGUF")
    assert (removed.returncode, tree(hub.home / "models")) == (0, [])
    assert edgedec(hub, "rm", "Owner/Tiny-GGUF").stderr.startswith("error: Owner/Tiny-GGUF is not")


def test_a_repository_of_safetensors_is_fetched_checked_and_exported(
    hub: Hub, safetensors: dict[str, bytes]
) -> None:
    commit = hub.site.add_repository("owner/tiny", safetensors, large=r"safetensors$")
    done = edgedec(hub, "pull", "owner/tiny")
    assert done.returncode == 0, done.stderr
    assert "owner--tiny got q8_0 weights" in done.stderr
    source = Manifest.load(hub.home / "models" / "owner--tiny", verify=True).source
    assert (source["kind"], source["repo"], source["revision"]) == ("model hub", "owner/tiny", commit)
    assert source["chosen"] == "by order"
    asked = {request.path.rpartition("/")[2] for request in hub.site.requests if "/resolve/" in request.path}
    assert not asked & {"README.md", "model.onnx"}
    assert [name for name in tree(hub.home) if name.startswith("downloads")] == []
    before = len(hub.site.requests)
    assert edgedec(hub, "generate", "-m", "owner/tiny", "Hi", "--max-tokens", "2").returncode == 0
    assert len(hub.site.requests) == before


def test_an_interrupted_download_of_several_files_goes_on(hub: Hub, safetensors: dict[str, bytes]) -> None:
    commit = hub.site.add_repository("owner/tiny", safetensors, large=r"safetensors$")
    weights = f"/owner/tiny/resolve/{commit}/model.safetensors"
    hub.site.script[weights] = deque([("drop", 1000), *[("status", 403)]])
    assert edgedec(hub, "pull", "owner/tiny").returncode == 6
    assert edgedec(hub, "pull", "owner/tiny").returncode == 0
    assert hub.site.of(weights)[-1].headers["range"] == "bytes=1000-"
    assert len(hub.site.of(f"/owner/tiny/resolve/{commit}/tokenizer.json")) == 1


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_any_file_that_is_not_the_listed_one_is_refused(
    hub: Hub, safetensors: dict[str, bytes], name: str
) -> None:
    commit = hub.site.add_repository("owner/tiny", safetensors, large=r"safetensors$")
    other = bytearray(safetensors[name])
    other[-3] ^= 1
    hub.site.files[f"/owner/tiny/resolve/{commit}/{name}"] = bytes(other)
    done = edgedec(hub, "pull", "owner/tiny")
    assert (done.returncode, tree(hub.home / "models")) == (4, [])
    assert name in done.stderr.splitlines()[-1]


def test_an_architecture_without_a_graph_is_refused_before_its_weights_come(
    hub: Hub, safetensors: dict[str, bytes]
) -> None:
    config = {**json.loads(safetensors["config.json"]), "model_type": "mamba"}
    files = {**safetensors, "config.json": json.dumps(config).encode()}
    commit = hub.site.add_repository("owner/tiny", files, large=r"safetensors$")
    done = edgedec(hub, "pull", "owner/tiny")
    assert done.returncode == 5
    assert "EdgeDec builds no graph for models of type mamba" in done.stderr
    assert hub.site.of(f"/owner/tiny/resolve/{commit}/model.safetensors") == []


def test_a_repository_without_a_model_says_so(hub: Hub) -> None:
    hub.site.add_repository("owner/data", {"README.md": b"", "pytorch_model.bin": b""})
    done = edgedec(hub, "pull", "owner/data")
    assert done.returncode == 3
    words = "owner/data on the model hub has no GGUF file, and no safetensors with a config.json"
    assert words in done.stderr.splitlines()[-1]


def test_the_files_of_a_directory_can_be_kept_twice(hub: Hub, safetensors: dict[str, bytes]) -> None:
    hub.site.add_repository("owner/tiny", safetensors, large=r"safetensors$")
    for options in ((), ("--force",)):
        done = edgedec(hub, "pull", "owner/tiny", "--keep-source", *options)
        assert done.returncode == 0, done.stderr
    assert "gguf/owner--tiny/model/model.safetensors" in tree(hub.home)
