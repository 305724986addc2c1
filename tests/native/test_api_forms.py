"""Replies of a form in the native engine: tokens as in Python, with and without drafts."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from ctypes import byref
from pathlib import Path
from typing import Any

import pytest

from edgedec import native
from edgedec.api import Model
from edgedec.assemble.config import RunConfig
from edgedec.core.errors import GrammarError, MemoryBudgetError, UsageError
from edgedec.native.library import call
from edgedec.native.structs import CRequest, CResult
from edgedec.sampling import DrawParams
from tests.fixtures.tiny_models import prepared_run
from tests.native.form_cases import PARAMS, PERSON, SCHEMAS, TEXT


@pytest.fixture(scope="module")
def plain(bundle: Path) -> Iterator[native.NativeModel]:
    with native.open(bundle, threads=1, context=512, draft="off") as opened:
        yield opened


@pytest.fixture
def drafting(bundle: Path, tmp_path: Path) -> Iterator[native.NativeModel]:
    """One that still believes that a pass of many tokens costs what one of a single token does."""
    settings: dict[str, Any] = {"threads": 1, "context": 512, "draft": "lookup,recycling", "costs": tmp_path}
    with native.open(bundle, **settings):
        [file] = tmp_path.iterdir()
    known = json.loads(file.read_text())
    file.write_text(json.dumps({**known, "seconds": dict.fromkeys(known["seconds"], 0.001)}))
    with native.open(bundle, **settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def python(bundle: Path) -> Iterator[Model]:
    with Model(prepared_run(bundle, RunConfig(threads=1, context=512, draft="off"))) as opened:
        yield opened


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_reply_under_a_schema_is_the_one_of_python(
    plain: native.NativeModel, drafting: native.NativeModel, python: Model, schema: Any, params: DrawParams
) -> None:
    theirs = python.complete(TEXT, sampling=params, max_tokens=90, schema=schema)
    try:
        theirs.read()
    except GrammarError:
        assert theirs.finish_reason == "length"
    for model in (plain, drafting):
        ours = model.complete(TEXT, sampling=params, max_tokens=90, schema=json.dumps(schema))
        assert (ours.tokens, ours.text) == (theirs.tokens, theirs.text)
        assert ours.finish_reason == theirs.finish_reason
        if ours.finish_reason == "stop":
            json.loads(ours.text)


def test_certain_tokens_are_drafts_of_the_form(drafting: native.NativeModel) -> None:
    reply = drafting.complete(TEXT, sampling=DrawParams(), max_tokens=90, schema=json.dumps(PERSON))
    assert "grammar" in reply.sources
    accepted = drafting.stats()["drafted_by"]["grammar"]["accepted"]
    assert reply.figures["accepted_tokens"] >= accepted >= 1


@pytest.mark.parametrize("params", PARAMS)
def test_a_reply_is_one_of_the_choices(
    plain: native.NativeModel, drafting: native.NativeModel, python: Model, params: DrawParams
) -> None:
    theirs = python.complete(TEXT, sampling=params, regex="yes|no|yesterday|ä b")
    theirs.read()
    for model in (plain, drafting):
        ours = model.complete(TEXT, sampling=params, choices=["yes", "no", "yesterday", "ä b"])
        assert (ours.tokens, ours.finish_reason) == (theirs.tokens, "stop")
        assert ours.text in ("yes", "no", "yesterday", "ä b")


def test_a_reply_that_was_cut_goes_on_in_its_form(
    plain: native.NativeModel, drafting: native.NativeModel
) -> None:
    turns = [{"role": "user", "content": "hello"}]
    sampling, schema = DrawParams(temperature=0.9, seed=2), json.dumps(PERSON)
    whole = plain.reply(turns, sampling=sampling, max_tokens=120, schema=schema)
    for model in (plain, drafting):
        tokens = model.reply(turns, sampling=sampling, max_tokens=7, schema=schema).tokens
        with pytest.raises(UsageError, match="the reply so far is not of this form"):
            model.more(sampling=sampling, choices=["yes"])
        for _ in range(30):
            found = model.more(sampling=sampling, max_tokens=11, schema=schema)
            tokens += found.tokens
            if found.finish_reason == "stop" or len(tokens) >= 120:
                break
        assert tokens[:120] == whole.tokens


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"schema": ""}, "the JSON schema is empty"),
        ({"schema": "[1"}, "the JSON schema is no JSON"),
        ({"schema": "3"}, "the JSON schema is no object"),
        ({"schema": '{"type": "text"}'}, '"type" is none'),
        ({"schema": '{"properties": {"a": {"not": {}}}}'}, "\"not\" at '/properties/a' cannot be kept to"),
        ({"schema": '{"type": "string", "pattern": "a(?=b)"}'}, '"pattern" has what cannot be kept to'),
        ({"schema": '{"type": "string", "format": "uri"}'}, '"format" cannot be kept to'),
        ({"schema": '{"type": "number", "multipleOf": 3}'}, '"multipleOf" cannot be kept to'),
        ({"schema": '{"$ref": "#/$defs/none"}'}, '"\\$ref" leads to nothing'),
        ({"schema": '{"$ref": "#"}'}, "no value that ends keeps to it"),
        ({"schema": '{"oneOf": [{"type": "integer"}, {"type": "number"}]}'}, '"oneOf" has alternatives'),
        ({"schema": "{}", "choices": ["a"]}, "a schema and choices are given"),
        ({"choices": ["a", ""]}, "a choice is empty"),
        ({"choices": ["a"] * 1001}, "the choices are too many"),
    ],
)
def test_a_form_that_cannot_be_used_is_a_line(
    plain: native.NativeModel, asked: dict[str, Any], says: str
) -> None:
    before = plain.complete(TEXT, max_tokens=3, sampling=DrawParams()).tokens
    with pytest.raises(UsageError, match=says) as caught:
        plain.complete(TEXT, max_tokens=3, **asked)
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    assert plain.complete(TEXT, max_tokens=3, sampling=DrawParams()).tokens == before


def test_a_program_that_was_compiled_before_forms_is_served(plain: native.NativeModel) -> None:
    class Older(ctypes.Structure):
        _fields_ = CRequest._fields_[:8]

    request, result = Older(ctypes.sizeof(Older), 3), CResult(ctypes.sizeof(CResult))
    older = ctypes.cast(ctypes.pointer(request), ctypes.POINTER(CRequest))
    call("complete", plain._handle, TEXT.encode(), len(TEXT), older, byref(result))
    assert result.tokens == 3
    request.size = ctypes.sizeof(Older) - 8
    with pytest.raises(UsageError, match="the request has no size"):
        call("complete", plain._handle, TEXT.encode(), len(TEXT), older, byref(result))


def test_the_memory_of_a_form_is_planned(bundle: Path) -> None:
    least = native.plan(bundle, threads=1, context=256, draft="off")["planned_bytes"]
    with native.open(bundle, threads=1, context=256, draft="off", memory=least + 2_000_000) as model:
        with pytest.raises(MemoryBudgetError, match="structured output"):
            model.complete(TEXT, max_tokens=3, schema="{}")
        assert len(model.complete(TEXT, max_tokens=3).tokens) == 3
    with native.open(bundle, threads=1, context=256, draft="off", memory=least + 60_000_000) as model:
        assert model.complete(TEXT, max_tokens=3, schema="{}").tokens
        assert model.stats()["memory"]["parts"]["grammar"] > 20_000_000
