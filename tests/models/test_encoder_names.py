"""Encoders by the names that people type."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.core.errors import NotFoundError
from edgedec.export import export_huggingface
from edgedec.models import RECIPES, Store
from edgedec.models.encoder_names import ENCODERS, encoder_file
from edgedec.models.hub_names import hub_name
from tests.conftest import ROOT
from tests.fixtures.tiny_bert import write_bert


def test_names_are_none_of_the_catalogue_and_stand_in_the_guide() -> None:
    assert not ENCODERS.keys() & RECIPES.keys()
    guide = (ROOT / "docs/guide/vectors.md").read_text()
    assert all(f"| `{name}` |" in guide for name in ENCODERS)
    assert len({hub_name(file) for file in ENCODERS.values()}) == len(ENCODERS)


@pytest.mark.parametrize(("typed", "name"), [
    ("All-MiniLM-L6-v2", "all-minilm-l6-v2"), ("all-minilm:latest", "all-minilm-l6-v2"),
    ("embeddinggemma:300m", "embeddinggemma-300m"), ("qwen3-embedding:0.6b", "qwen3-embedding-0.6b"),
    ("nomic-embed-text", "nomic-embed-text-v1.5"), ("nomic-embed-text:v1.5", "nomic-embed-text-v1.5"),
])  # fmt: skip
def test_other_spellings(typed: str, name: str) -> None:
    assert encoder_file(typed) == ENCODERS[name]


def test_an_installed_one_is_found_by_its_name(tmp_path: Path) -> None:
    store, file = Store(tmp_path), ENCODERS["all-minilm-l6-v2"]
    with pytest.raises(NotFoundError, match="not installed"):
        store.path("all-minilm-l6-v2")
    write_bert(tmp_path / "files")
    pulled = tmp_path / "models" / hub_name(file)
    export_huggingface(tmp_path / "files", pulled)
    assert store.ensure("all-minilm") == store.path("all-minilm-l6-v2") == pulled
    own = tmp_path / "models/all-minilm-l6-v2"
    export_huggingface(tmp_path / "files", own)
    assert store.ensure("all-minilm-l6-v2") == store.path("all-minilm-l6-v2") == own
