"""Replies of a form by the model's own law, through the API: alike with drafts and in a batch, cut, saved."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import edgedec
from edgedec.core.errors import GrammarError, UsageError
from edgedec.grammar import GrammarSpec
from edgedec.sampling import DrawParams
from tests.api.opening import opened
from tests.fixtures.tiny_models import tiny_bundle

FORM = "(hello|the )[ab]{2}(world|hello)"
WARM = DrawParams(temperature=1.0, seed=4)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("models"))


@pytest.fixture
def model(bundle: Path, tmp_path: Path) -> Iterator[edgedec.Model]:
    with opened(bundle, tmp_path, context=512) as model:
        yield model


def test_replies_are_alike_with_drafts_and_without(bundle: Path, tmp_path: Path) -> None:
    found = []
    for draft in ("off", "lookup,recycling"):
        with opened(bundle, tmp_path, context=512, draft=draft) as model:
            chat = model.chat(regex=FORM, sampling=WARM, form_sampling="unbiased")
            replies = [chat.reply("hello"), chat.reply("and again hello")]
            texts = [(reply.read(), reply.tokens, reply.stats.form) for reply in replies]
            assert all(re.fullmatch(FORM, reply.text) for reply in replies)
            assert all(cost is not None and cost.tries > 1 for _, _, cost in texts)
            found.append(texts)
    assert found[0] == found[1]


def test_replies_are_alike_in_a_batch(bundle: Path, tmp_path: Path, model: edgedec.Model) -> None:
    alone = [
        model.chat(regex="yes|no|perhaps", sampling=WARM, form_sampling="unbiased").reply(t).read()
        for t in "abc"
    ]
    with opened(bundle, tmp_path, context=512, conversations=3) as one:
        several = one.conversations(regex="yes|no|perhaps", sampling=WARM, form_sampling="unbiased")
        with several:
            together = [answer.reply.text for answer in several.answers(list("abc")) if answer.reply]
    assert together == alone


def test_settings_beside_the_temperature_do_not_apply(model: edgedec.Model) -> None:
    cut = DrawParams(temperature=1.0, seed=4, top_k=2, repetition_penalty=1.3)
    texts = [
        (reply.read(), reply.params)
        for params in (WARM, cut)
        for reply in [model.chat(regex="[ab]{4}", sampling=params, form_sampling="unbiased").reply("hello")]
    ]
    assert texts[0] == texts[1]
    assert texts[0][1] == WARM


def test_what_it_cannot_do_is_refused_before_anything(model: edgedec.Model) -> None:
    with pytest.raises(UsageError, match="the temperature is 0"):
        model.chat(regex="a", sampling=DrawParams(), form_sampling="unbiased")
    with pytest.raises(UsageError, match="has no form"):
        model.chat(form_sampling="unbiased")
    with pytest.raises(UsageError, match="unknown way"):
        model.chat(regex="a", form_sampling="fair")  # type: ignore[arg-type]
    chat = model.chat(regex="a", sampling=WARM, form_sampling="unbiased")
    with pytest.raises(UsageError, match="no log-probabilities"):
        chat.reply("hello", logprobs=1)
    assert chat.reply("hello").read() == "a"
    assert len(chat.messages) == 2


def test_a_reply_that_is_cut_is_saved_and_goes_on(model: edgedec.Model, tmp_path: Path) -> None:
    chat = model.chat(sampling=WARM)
    reply = chat.reply("hello", regex="(ab|cd){6}", form_sampling="unbiased", max_tokens=4)
    with pytest.raises(GrammarError, match="cut after 4 tokens"):
        reply.read()
    assert reply.finish_reason == "length"
    chat.save(tmp_path / "talk")
    again = model.restore(tmp_path / "talk")
    parts = [reply.text]
    while len(parts) < 9 and len("".join(parts)) < 12:
        more = again.more()
        with suppress(GrammarError):
            more.read()
        parts.append(more.text)
        assert more.form == GrammarSpec.of(regex="(ab|cd){6}", form_sampling="unbiased")
    assert re.fullmatch("(ab|cd){6}", "".join(parts))


def test_nothing_is_shown_before_the_reply_is_there_and_it_can_be_interrupted(model: edgedec.Model) -> None:
    reply = model.chat(regex="yes|no", sampling=WARM, form_sampling="unbiased").reply("hello")
    reply.interrupt()
    assert reply.read() == ""
    assert reply.finish_reason == "interrupted"
