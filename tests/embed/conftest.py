from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.embed.encoder import Encoder, load_encoder
from edgedec.export import export_huggingface
from tests.fixtures.tiny_bert import write_bert


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of a tiny encoder."""
    prompts = {"query": "why is ", "document": "the "}
    return write_bert(tmp_path_factory.mktemp("bert") / "model", prompts=prompts)


@pytest.fixture(scope="session")
def bundle(bert: Path) -> Path:
    """The bundle of that encoder."""
    out = bert.parent / "bundle"
    export_huggingface(bert, out, name="tiny-bert")
    return out


@pytest.fixture(scope="session")
def encoder(bundle: Path) -> Encoder:
    """That encoder, opened."""
    return load_encoder(bundle, threads=1)
