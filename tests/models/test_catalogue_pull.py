"""Models of the catalogue that only the hub has, pulled from a loopback server that answers as it does."""

from __future__ import annotations

import json

import pytest

from edgedec.models.catalogue import CATALOGUE
from tests.models.conftest import tree
from tests.models.test_hub import DATA, Hub, hub

__all__ = ["hub"]

FILES = {
    "README.md": b"text",
    "some-Q8_0.gguf": DATA[::-1],
    "some-Q4_K_M.gguf": DATA,
    "mmproj-f16.gguf": b"side",
}


@pytest.mark.parametrize("name", ["qwen2.5-3b", "gemma3-4b"])
def test_the_notice_comes_first_and_the_hubs_hash_is_kept(name: str, hub: Hub) -> None:
    recipe = CATALOGUE[name].recipe
    assert recipe.hub is not None
    commit = hub.site.add_repository(recipe.hub.repo, FILES)
    answer = hub.pull(name)
    assert answer["path"] == name
    assert answer["provenance"][0]["repo_file"] == "some-Q4_K_M.gguf"
    assert answer["provenance"][0]["revision"] == commit
    amount = f"about {recipe.bytes / 1e9:.1f} GB"
    first = f"{name}, {amount}; licence: {recipe.licence.name}, {recipe.licence.url}"
    assert answer["notices"][:2] == [first, f"note: {recipe.licence.notice}"]
    manifest = json.loads((hub.home / "models" / name / "manifest.json").read_text())
    assert len(manifest["sha256"]) == 64
    assert tree(hub.home) == [f"models/{name}/manifest.json", f"models/{name}/weights.bin"]
    before = len(hub.site.requests)
    assert hub.pull(name.upper())["path"] == name
    assert len(hub.site.requests) == before
