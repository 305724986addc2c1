"""Structured output of real models: the same tokens with drafts as without, and whole replies are valid."""

from __future__ import annotations

import json
from collections.abc import Iterator

import jsonschema
import pytest

import edgedec
from edgedec.bench.harness.schemas import FAMILIES, Schema, schemas
from edgedec.core.errors import GrammarError, UsageError
from edgedec.sampling import DrawParams
from tests.fixtures.real_models import installed

CASES = {"smollm2-135m": 504, "gemma3-270m": 60, "qwen2.5-coder-1.5b": 30}
"""Cases by model: a schema, a prompt, and a way to draw."""
TOKENS = 28
WAYS = (
    DrawParams(),
    DrawParams(temperature=1.0, seed=11),
    DrawParams(temperature=0.7, top_k=20, top_p=0.8, repetition_penalty=1.05, seed=12),
    DrawParams(temperature=0.3, min_p=0.1, seed=13),
)
PROMPTS = ("Give me an example.", "Fill in this form.", "Make up a record, then a second one.", "Hello!")


def cases(count: int) -> Iterator[tuple[Schema, str, DrawParams]]:
    each = -(-count // len(FAMILIES))
    every = [schema for family in FAMILIES for schema in schemas(family, each)]
    for number, schema in enumerate(every[:count]):
        yield schema, PROMPTS[number % len(PROMPTS)], WAYS[number % len(WAYS)]


def replied(model: edgedec.Model, schema: Schema, prompt: str, params: DrawParams) -> edgedec.Reply:
    reply = model.complete(prompt, schema=schema, sampling=params, max_tokens=TOKENS)
    try:
        reply.read()
    except GrammarError:
        assert reply.finish_reason == "length"
    else:
        jsonschema.Draft202012Validator(schema).validate(json.loads(reply.text))
    return reply


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_drafts_change_no_token(name: str) -> None:
    bundle = installed(name)
    drafted = same = whole = refused = 0
    with (
        edgedec.open(bundle, draft="off", context=512, threads=1) as plain,
        edgedec.open(bundle, draft="auto", context=512, threads=1) as quick,
    ):
        for schema, prompt, params in cases(CASES[name]):
            try:
                expected = replied(plain, schema, prompt, params)
            except UsageError:
                refused += 1
                continue
            reply = replied(quick, schema, prompt, params)
            assert reply.tokens == expected.tokens, (schema, prompt, params)
            same += 1
            whole += reply.finish_reason == "stop"
            drafted += sum(source is not None for source in reply.sources)
    print(f"{name}: {same} alike, {whole} whole, {refused} refused, {drafted} drafted tokens")
    assert same >= 0.95 * CASES[name]
    assert drafted > same
