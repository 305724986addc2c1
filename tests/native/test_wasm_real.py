"""Real models in edgedec.wasm with the drafters that come with them: Python's tokens, greedy and drawn."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import edgedec
from edgedec.bundle.web_folder import WEB
from edgedec.disk.home import default_home
from edgedec.export.device import DeviceOrder, choose_drafters
from edgedec.export.web import write_web_folder
from edgedec.export.web.wasm import FAST
from edgedec.sampling import DrawParams
from tests.fixtures.real_models import installed
from tests.native.test_wasm import in_node, wasm
from tests.native.web_runs import CHEAP, request_of

__all__ = ["wasm"]

TEXT = "def fibonacci(n):\n    # The first numbers are 0, 1, 1, 2, 3, 5, 8. The first numbers are"
TOKENS, CONTEXT = 128, 512
WAYS = (
    DrawParams(),
    DrawParams(temperature=0.8, top_p=0.95, repetition_penalty=1.05, seed=7),
)
CASES = {
    ("smollm2-135m", "auto"): {"lookup", "recycling"},
    ("smollm2-135m", "lookup,recycling,exit-30"): {"lookup", "recycling", "exit-30"},
    ("gemma3-270m", "auto"): {"lookup", "recycling", "exit-18"},
}
"""Model and drafters, and those that draft. A trimmed head saves half of a pass of Gemma's alone, so `auto`
has it there.
"""
MOST_S = 3600
"""Longest time of two replies on a busy machine."""

pytestmark = pytest.mark.slow


@cache
def expected(name: str) -> list[list[int]]:
    """Python's tokens without drafts."""
    with edgedec.open(name, context=CONTEXT, draft="off") as model:
        found = []
        for params in WAYS:
            reply = model.complete(TEXT, sampling=params, max_tokens=TOKENS)
            reply.read()
            found.append([*reply.tokens])
        return found


@pytest.mark.parametrize(("name", "draft"), CASES)
def test_tokens_are_those_of_python_whoever_drafts(name: str, draft: str, wasm: Path, tmp_path: Path) -> None:
    bundle, home = installed(name), default_home()
    order = DeviceOrder(WEB, bundle, choose_drafters((), bundle, home), None, home)
    write_web_folder(order, tmp_path / "page")
    threads = 2 if wasm.name == FAST else 1
    options = {"context": CONTEXT, "costs": CHEAP, "draft": draft, "flat": True, "threads": threads}
    requests = [{"text": TEXT, "max_tokens": TOKENS, **request_of(params)} for params in WAYS]
    found = in_node(wasm, tmp_path / "page" / "model", options, requests, MOST_S)
    assert [len(one["tokens"]) for one in found] == [TOKENS, TOKENS]
    assert [one["tokens"] for one in found] == expected(name)
    drafted = {drafter for drafter, one in found[1]["drafted"].items() if one["queries"]}
    assert drafted == CASES[name, draft]
    assert all(one["figures"]["accepted_tokens"] for one in found)
