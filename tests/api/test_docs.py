"""The page about the API is the one that its docstrings make, and its examples do what they say."""

from __future__ import annotations

import doctest
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import pytest

import edgedec
from edgedec.cli import apidoc
from tests.conftest import ROOT
from tests.fixtures.real_models import installed

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
    for name in ("smollm2-135m", "qwen2.5-coder-1.5b"):
        installed(name)
    config = edgedec.RunConfig(context=1024, sampling=edgedec.SamplingParams.greedy())
    with ExitStack() as opened:
        model = opened.enter_context(edgedec.open("smollm2-135m", config))
        given = {"edgedec": edgedec, "model": model, "chat": model.chat(max_tokens=60), "folder": tmp_path}
        if module == "edgedec.session.chat":  # tools need a template that knows them
            given["qwen"] = opened.enter_context(edgedec.open("qwen2.5-coder-1.5b", config))
        results = doctest.testmod(import_module(module), extraglobs=given)
    assert results.failed == 0
    assert results.attempted > 0
