"""Faults of other runtimes under forms with drafts, as users reported them: none of them here.

- Rejected drafts moved the grammar on (vLLM 15554), and penalties met more rows than drafts (vLLM 26586).
- A form was not kept to where a draft went through the end of the thinking part (vLLM 36138).
- Replies ended after a few tokens, or went on behind their form (vLLM 10442, SGLang 9187).
- Shares of choices were not those of the model, since cuts came before the grammar (llama.cpp 12643).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import edgedec
from edgedec.decode.records import ReplyDetails
from edgedec.grammar import GrammarSpec, constraint_for
from edgedec.sampling import DrawParams
from tests.api.opening import opened
from tests.fixtures.tiny_models import tiny_bundle

WARM = DrawParams(temperature=1.0, seed=11)
PENALTIES = DrawParams(
    temperature=0.9, seed=11, frequency_penalty=0.7, presence_penalty=0.4, repetition_penalty=1.2
)
FORM: dict[str, Any] = {
    "type": "array",
    "items": {"enum": ["the world", "the red world", "hello world"]},
    "minItems": 4,
    "maxItems": 4,
}
THOUGHT = GrammarSpec.lark('start: /[a-z ]{4,12}/ "</think>" ("yes" | "no")')
PROMPTS = (
    '["the world", "hello world", "the world"] again',
    "hello hello world</think>yes hello world</think>no",
)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("models"))


@pytest.fixture(params=["off", "lookup,recycling"])
def model(bundle: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[edgedec.Model]:
    with opened(bundle, tmp_path, context=512, draft=request.param) as model:
        yield model


def replies(
    bundle: Path, folder: Path, draft: str, form: GrammarSpec, params: DrawParams
) -> list[tuple[str, Any]]:
    with opened(bundle, folder, context=512, draft=draft) as model:
        chats = [model.chat(grammar=form, sampling=replace(params, seed=seed)) for seed in range(6)]
        found = []
        for chat, text in product(chats, PROMPTS):
            one = chat.reply(text)
            found.append((one.read(), (tuple(one.tokens), one.finish_reason)))
        return found


@pytest.mark.parametrize("form", [GrammarSpec.of(schema=FORM), THOUGHT], ids=["array", "thought"])
@pytest.mark.parametrize("params", [WARM, PENALTIES], ids=["warm", "penalties"])
def test_drafts_that_leave_the_form_change_nothing(
    bundle: Path, tmp_path: Path, form: GrammarSpec, params: DrawParams
) -> None:
    """The prompts are full of beginnings of the form, which lookup goes on with across its ends."""
    plain, drafted = (replies(bundle, tmp_path, draft, form, params) for draft in ("off", "lookup,recycling"))
    assert plain == drafted
    for text, (_, reason) in plain:
        assert reason == "stop"
        whole = json.loads(text) if form.parses else re.fullmatch("[a-z ]{4,12}</think>(yes|no)", text)
        assert whole is not None
        assert not form.parses or len(whole) == 4


def test_no_token_follows_a_form_that_is_whole(model: edgedec.Model) -> None:
    """A draft that is accepted to the end of the form is cut there."""
    for seed in range(8):
        chat = model.chat(regex="(hello world){3}", sampling=replace(WARM, seed=seed), max_tokens=64)
        reply = chat.reply("hello world" * 6)
        assert reply.read() == "hello world" * 3
        assert reply.finish_reason == "stop"
        assert model.loaded.tokenizer.decode(reply.text_tokens) == reply.text


def test_a_cut_that_leaves_no_token_of_the_form_is_made_behind_the_mask(model: edgedec.Model) -> None:
    """Top-k 1 over all tokens would leave one word for every seed, and perhaps none of the form."""
    sharp = DrawParams(temperature=1.0, top_k=1)
    words = {
        model.chat(regex="(yes|no|perhaps)", sampling=replace(sharp, seed=seed)).reply("hello").read()
        for seed in range(6)
    }
    assert len(words) == 1
    home, form = model.engine.home, GrammarSpec.of(regex="(a|b|c)")
    constraint = constraint_for(form, model.loaded.tokenizer, home.spec, home.ledger)
    details = ReplyDetails(grammar=constraint)
    drawn: Counter[int] = Counter()
    for seed in range(30):
        params = replace(sharp, top_k=2, seed=seed)
        [step] = model.engine.generate([1, 2], params, max_tokens=1, stop_ids=(), details=details)
        drawn[step.token] += 1
        constraint.back(1)
    assert len(drawn) == 2  # the two best of the three that may come
