"""The page about the API is the one that its docstrings make, and its examples do what they say."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import edgedec
from edgedec.cli import apidoc
from edgedec.core.errors import NotFoundError
from edgedec.models import Store
from tests.conftest import ROOT

EXAMPLES = [
    "edgedec.api",
    "edgedec.session.chat",
    "edgedec.session.conversations",
    "edgedec.session.reply",
    "edgedec.sampling.named",
]


def test_the_page_is_up_to_date() -> None:
    written = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert written == apidoc.document(), "run: python -m edgedec.cli.apidoc docs/api.md"


def test_every_public_name_is_on_the_page() -> None:
    page = apidoc.document()
    assert [name for name in edgedec.__all__ if f"edgedec.{name}" not in page and name[0] != "_"] == []


@pytest.mark.slow
@pytest.mark.parametrize("module", EXAMPLES)
def test_examples_run_with_the_real_model(module: str, tmp_path: Path) -> None:
    try:
        Store().path("smollm2-135m")
    except NotFoundError:
        pytest.skip("the real model is not installed: edgedec pull smollm2-135m")
    config = edgedec.RunConfig(context=1024, sampling=edgedec.SamplingParams.greedy())
    with edgedec.open("smollm2-135m", config) as model:
        given = {"edgedec": edgedec, "model": model, "chat": model.chat(max_tokens=60), "folder": tmp_path}
        results = doctest.testmod(import_module(module), extraglobs=given)
    assert results.failed == 0
    assert results.attempted > 0
