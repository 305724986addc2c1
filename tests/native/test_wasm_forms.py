"""Replies of a form in edgedec.wasm: Python's tokens, with and without drafts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.tiny_models import tiny_bundle
from tests.native.cases import PythonRuns
from tests.native.form_cases import form_cases
from tests.native.test_wasm import in_node, wasm
from tests.native.web_runs import CHEAP, asked_for, with_program

__all__ = ["wasm"]

CONTEXT = 512


@pytest.mark.parametrize("architecture", ["llama", "gemma3", "lfm2"])
def test_replies_of_a_form_are_those_of_python(wasm: Path, tmp_path: Path, architecture: str) -> None:
    bundle, every = with_program(tiny_bundle(tmp_path, architecture)), form_cases(40)
    python = PythonRuns(bundle, context=CONTEXT)
    expected = [python.run(case) for case in every]
    python.close()
    requests = [asked_for(case) for case in every]
    for options in ({"draft": "off"}, {"costs": CHEAP, "flat": True}):
        found = in_node(wasm, bundle, {"context": CONTEXT, **options}, requests)
        told = [(tuple(one["tokens"]), one["text"], one["figures"]["finish_reason"]) for one in found]
        assert told == [(one.tokens, one.text, one.finish) for one in expected]
        drafted = sum(one["figures"]["accepted_tokens"] for one in found)
        assert (drafted > 20) == ("costs" in options)
    assert sum(one.finish == "stop" for one in expected) >= len(every) // 4
