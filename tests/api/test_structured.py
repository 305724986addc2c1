"""Replies of a given form: valid or an error, alone and in a batch, cut and continued, drafted and not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest

import edgedec
from edgedec.control.switching import DEFAULT_RULE
from edgedec.core.errors import GrammarError, UsageError
from edgedec.grammar import GrammarSpec
from edgedec.sampling import DrawParams
from tests.api.opening import opened
from tests.fixtures.tiny_models import tiny_bundle

GREEDY = DrawParams()
SAMPLED = DrawParams(temperature=1.0, seed=4)
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "colour": {"enum": ["the red world", "the green one", "hello"]},
        "count": {"type": "integer", "minimum": 0, "maximum": 999},
        "flags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    },
    "required": ["colour", "count", "flags"],
    "additionalProperties": False,
}


class Paint(pydantic.BaseModel):
    """The same as a class."""

    colour: str = pydantic.Field(max_length=12)
    count: int = pydantic.Field(ge=0, le=99)


class Odd(pydantic.BaseModel):
    """With a rule that its JSON schema does not have."""

    count: int = pydantic.Field(ge=0, le=0)

    @pydantic.field_validator("count")
    @classmethod
    def odd(cls, value: int) -> int:
        if value % 2 == 0:
            raise ValueError("it must be odd")
        return value


@pytest.fixture
def model(bundle: Path, tmp_path: Path) -> Iterator[edgedec.Model]:
    with opened(bundle, tmp_path, context=512) as model:
        yield model


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_a_reply_has_its_form_with_and_without_drafts(
    bundle: Path, tmp_path: Path, params: DrawParams
) -> None:
    found = []
    for draft in ("off", "lookup,recycling"):
        with opened(bundle, tmp_path, context=512, draft=draft) as model:
            chat = model.chat(schema=FORM, sampling=params)
            replies = []
            for text in ("hello", "and again hello"):
                replies.append(chat.reply(text))
                replies[-1].read()
            found.append([(reply.text, reply.tokens) for reply in replies])
            for reply in replies:
                assert reply.finish_reason == "stop"
                assert reply.parsed == json.loads(reply.text)
                assert set(reply.parsed) == {"colour", "count", "flags"}
    assert found[0] == found[1]


def test_a_class_gives_the_form_and_takes_the_value(model: edgedec.Model) -> None:
    reply = model.chat(schema=Paint, sampling=SAMPLED).reply("hello")
    pieces = iter(reply)
    begun = next(pieces)
    with pytest.raises(GrammarError, match="no whole"):
        _ = reply.parsed
    assert Paint.model_validate_json(begun + "".join(pieces)) == reply.parsed
    assert isinstance(reply.parsed, Paint)


def test_a_rule_that_the_class_has_besides_is_kept_or_an_error(model: edgedec.Model) -> None:
    reply = model.chat(schema=Odd).reply("hello")
    with pytest.raises(GrammarError, match="must be odd"):
        reply.read()
    assert json.loads(reply.text) == {"count": 0}


def test_other_forms(model: edgedec.Model) -> None:
    assert model.chat(regex="yes|no").reply("hello").read() in ("yes", "no")
    assert model.complete("hello", grammar='start: "a"~3 | "hello"').read() in ("aaa", "hello")
    assert model.complete("hello", grammar=GrammarSpec.of(regex="[xy]{4}")).read().strip("xy") == ""
    reply = model.chat(regex="yes|no").reply("hello")
    assert reply.read()
    assert reply.parsed is None
    free = model.chat(max_tokens=2).reply("hello")
    assert free.read() is not None
    assert free.parsed is None


def test_a_reply_may_have_a_form_of_its_own(model: edgedec.Model) -> None:
    chat = model.chat(max_tokens=4)
    assert chat.reply("hello", regex="yes|no").read() in ("yes", "no")
    assert len(chat.reply("hello").read()) != 0
    assert chat.last is not None
    assert chat.last.form is None
    strict = model.chat(regex="a{3}")
    assert strict.reply("hello", regex="b{2}").read() == "bb"
    assert strict.reply("hello").read() == "aaa"


@pytest.mark.parametrize(
    "form",
    [{"schema": {"type": "strin"}}, {"regex": "a("}, {"grammar": "start: what"}, {"schema": 3}],
    ids=str,
)
def test_a_form_that_cannot_be_is_refused_before_anything(model: edgedec.Model, form: Any) -> None:
    with pytest.raises(UsageError):
        model.chat(**form)
    with pytest.raises(UsageError):
        model.complete("hello", **form)
    chat = model.chat(max_tokens=3)
    text = chat.reply("hello").read()
    with pytest.raises(UsageError):
        chat.reply("hello", **form)
    assert [message.content for message in chat.messages] == ["hello", text]
    assert chat.more().form is None


def test_two_forms_are_too_many(model: edgedec.Model) -> None:
    with pytest.raises(UsageError, match="regex and schema"):
        model.chat(schema=FORM, regex="a")
    with pytest.raises(TypeError, match="scheme"):
        model.chat(scheme=FORM)  # type: ignore[call-arg]


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_a_reply_that_is_cut_is_an_error_and_goes_on(model: edgedec.Model, params: DrawParams) -> None:
    whole = model.chat(schema=FORM, sampling=params).reply("hello")
    text = whole.read()
    chat = model.chat(sampling=params)
    reply = chat.reply("hello", schema=FORM, max_tokens=5)
    with pytest.raises(GrammarError, match="cut after 5 tokens"):
        reply.read()
    assert (reply.finish_reason, reply.tokens) == ("length", whole.tokens[:5])
    assert text.startswith(reply.text)
    parts = [reply.text]
    for _ in range(200):
        more = chat.more()
        try:
            parts.append(more.read())
            break
        except GrammarError:
            parts.append(more.text)
    assert "".join(parts) == text
    assert more.parsed == whole.parsed
    assert chat.messages[-1].content == text
    with pytest.raises(UsageError, match="no reply to continue"):
        chat.more()


def test_a_cut_reply_is_saved_with_its_form(model: edgedec.Model, tmp_path: Path) -> None:
    whole = model.chat(schema=FORM).reply("hello")
    whole.read()
    chat = model.chat()
    with pytest.raises(GrammarError):
        chat.reply("hello", schema=FORM, max_tokens=5).read()
    chat.save(tmp_path / "talk")
    more = model.restore(tmp_path / "talk").more()
    more.read()
    assert more.parsed == whole.parsed


def test_an_interrupted_reply_is_no_error_and_has_no_value(model: edgedec.Model) -> None:
    reply = model.chat(schema=FORM).reply("hello")
    for _ in reply:
        reply.interrupt()
    assert reply.finish_reason == "interrupted"
    with pytest.raises(GrammarError, match="no whole"):
        _ = reply.parsed


def test_a_stop_string_inside_is_an_error(model: edgedec.Model) -> None:
    reply = model.chat(schema=FORM, stop=["count"]).reply("hello")
    with pytest.raises(GrammarError, match="stop string"):
        reply.read()
    assert reply.text.startswith("{")


def test_in_an_event_loop_it_is_the_same(model: edgedec.Model) -> None:
    text = model.chat(schema=FORM).reply("hello").read()

    async def main() -> str:
        return "".join([piece async for piece in model.chat(schema=FORM).reply("hello")])

    assert asyncio.run(main()) == text

    async def cut() -> None:
        async for _ in model.chat(schema=FORM, max_tokens=3).reply("hello"):
            pass

    with pytest.raises(GrammarError):
        asyncio.run(cut())


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_a_batch_has_the_replies_of_single_ones(bundle: Path, tmp_path: Path, params: DrawParams) -> None:
    texts = ["hello", "the world", "hello hello hello hello", "a", "is it?"]
    with opened(bundle, tmp_path, context=256) as model:
        alone = []
        for text in texts:
            reply = model.chat(schema=FORM, sampling=params).reply(text)
            alone.append((reply.read(), reply.tokens))
    with opened(bundle, tmp_path, context=256, conversations=3, draft="lookup") as several:
        with several.conversations(schema=FORM, sampling=params) as chats:
            answers = list(chats.answers(texts))
        assert [(one.reply.text, one.reply.tokens) for one in answers if one.reply] == alone
        with pytest.raises(UsageError):
            several.conversations(regex="a(")
    with (
        opened(bundle, tmp_path, context=256, conversations=2, draft="lookup") as several,
        several.conversations(schema=FORM, sampling=params, max_tokens=4) as chats,
    ):
        [cut, _] = chats.answers(texts[:2])
        assert isinstance(cut.error, GrammarError)
        assert cut.reply is not None
        assert cut.reply.tokens == alone[0][1][:4]


def test_two_models_that_take_turns_have_no_form(bundle: Path, tmp_path: Path) -> None:
    other = tiny_bundle(tmp_path, seed=1)
    with (
        opened(bundle, tmp_path, switch=str(other), switch_rule=DEFAULT_RULE) as model,
        pytest.raises(UsageError, match="two take turns"),
    ):
        model.chat(regex="yes|no").reply("hello")


def test_a_budget_counts_the_vocabulary(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, tmp_path, memory="1GB", structured=True) as planned:
        assert planned.budget is not None
        assert planned.budget.plan.parts["grammar"] > 0
        assert planned.budget.plan.parts["rows"] > 0
        assert planned.chat(regex="yes|no").reply("hello").read() in ("yes", "no")
        assert planned.budget.ledger.most()["grammar"] == planned.budget.plan.parts["grammar"]
    with opened(bundle, tmp_path, memory="1GB") as later:
        assert later.budget is not None
        assert "grammar" not in later.budget.plan.parts
        assert later.chat(regex="yes|no").reply("hello").read() in ("yes", "no")
