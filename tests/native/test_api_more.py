"""``edgedec_more``: a reply that was cut goes on as ``Chat.more`` does, and as if it had been whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgedec import native
from edgedec.api import Model
from edgedec.assemble.config import RunConfig
from edgedec.core.errors import BadFileError, ContextFullError, UsageError
from edgedec.sampling import DrawParams
from edgedec.session.chat import Chat
from edgedec.session.reply import Reply
from edgedec.session.session_file import open_file, write_file
from tests.fixtures.tiny_models import prepared_run

CONTEXT = 160
PARAMS = {
    "greedy": DrawParams(),
    "sampled": DrawParams(temperature=0.9, seed=5),
    "mirostat": DrawParams(temperature=1.0, seed=2, mirostat=4.0, mirostat_eta=0.4),
    "penalties": DrawParams(temperature=1.1, seed=3, frequency_penalty=1.2, presence_penalty=0.7),
    "repetition": DrawParams(temperature=0.8, seed=9, repetition_penalty=1.3),
}
ASKED = [{"role": "user", "content": "hello world hello"}]


@pytest.fixture(scope="module")
def python(bundle: Path) -> Iterator[Model]:
    with Model(prepared_run(bundle, RunConfig(threads=1, context=CONTEXT, draft="off"))) as opened:
        yield opened


@pytest.fixture
def model(bundle: Path) -> Iterator[native.NativeModel]:
    with native.open(bundle, threads=1, context=CONTEXT) as opened:
        yield opened


def whole(model: native.NativeModel, params: DrawParams) -> DrawParams:
    """The settings without tokens that end a text, or are the character that ends one in C."""
    banned = sorted({0, 2, model.encode("\0")[-1]})
    return DrawParams(**{**vars_of(params), "logit_bias": tuple((token, -100.0) for token in banned)})


def vars_of(params: DrawParams) -> dict[str, Any]:
    return {name: getattr(params, name) for name in params.__dataclass_fields__}


def chat_of(python: Model, params: DrawParams, **settings: Any) -> Chat:
    return python.chat(messages=ASKED, sampling=params, **settings)


def compared(mine: native.NativeReply, theirs: Reply) -> None:
    assert mine.tokens == theirs.tokens
    assert mine.text == theirs.text
    assert mine.finish_reason == theirs.finish_reason
    assert mine.figures["prompt_tokens"] == len(theirs.prompt)


@pytest.mark.parametrize("name", PARAMS)
def test_the_parts_are_those_of_python_and_of_one_long_reply(
    name: str, model: native.NativeModel, python: Model
) -> None:
    params = whole(model, PARAMS[name])
    long = model.reply(ASKED, sampling=params, max_tokens=40)
    chat = chat_of(python, params)
    parts = [model.reply(ASKED, sampling=params, max_tokens=3)]
    compared(parts[0], read(chat.reply(max_tokens=3)))
    for count in (1, 9, 20, 7):
        parts.append(model.more(sampling=params, max_tokens=count))
        chat._own["max_tokens"] = count
        compared(parts[-1], read(chat.more()))
        assert parts[-1].figures["reused_tokens"] > len(ASKED[0]["content"].split())
    assert [token for part in parts for token in part.tokens] == long.tokens
    assert "".join(part.text for part in parts) == long.text
    turns = [*ASKED, {"role": "assistant", "content": long.text}, {"role": "user", "content": "and?"}]
    after = model.reply(turns, sampling=params, max_tokens=8)
    compared(after, read(chat.reply("and?", max_tokens=8)))
    assert after.figures["reused_tokens"] >= long.figures["prompt_tokens"] + len(long.tokens) - 1


def read(reply: Reply) -> Reply:
    reply.read()
    return reply


def test_a_stopped_reply_goes_on_and_a_stop_string_is_found_across_the_cut(
    model: native.NativeModel, python: Model
) -> None:
    params = whole(model, PARAMS["sampled"])
    long = model.reply(ASKED, sampling=params, max_tokens=40)
    stop = long.text[14:17]
    ended = model.reply(ASKED, sampling=params, max_tokens=40, stops=[stop])
    assert ended.finish_reason == "stop"
    for cut in range(1, len(ended.tokens)):
        chat = chat_of(python, params)
        first = model.reply(ASKED, sampling=params, max_tokens=cut, stops=[stop])
        compared(first, read(chat.reply(max_tokens=cut, stop=[stop])))
        chat._own["max_tokens"] = 40
        rest = model.more(sampling=params, max_tokens=40, stops=[stop])
        compared(rest, read(chat.more()))
        assert first.tokens + rest.tokens == ended.tokens
        assert rest.finish_reason == "stop"


def test_an_interrupted_reply_goes_on(model: native.NativeModel) -> None:
    params = whole(model, PARAMS["sampled"])
    long = model.reply(ASKED, sampling=params, max_tokens=20)
    heard: list[int] = []

    def hear(token: native.NativeToken) -> bool:
        heard.append(token.id)
        return len(heard) < 7

    first = model.reply(ASKED, sampling=params, on_token=hear)
    assert first.finish_reason == "interrupted"
    rest = model.more(sampling=params, max_tokens=20 - len(first.tokens))
    assert first.tokens + rest.tokens == long.tokens


def test_a_reply_without_an_end_is_none_to_continue(model: native.NativeModel, python: Model) -> None:
    with pytest.raises(UsageError, match="no reply to continue"):
        model.more()
    end = DrawParams(logit_bias=((2, 100.0),))
    assert model.reply(ASKED, sampling=end, max_tokens=5).finish_reason == "stop"
    with pytest.raises(UsageError, match="no reply to continue"):
        model.more()
    params = whole(model, PARAMS["greedy"])
    first = model.reply(ASKED, sampling=params, max_tokens=5)
    model.complete("another text", max_tokens=3)
    rest = model.more(sampling=params, max_tokens=5)
    assert first.tokens + rest.tokens == model.reply(ASKED, sampling=params, max_tokens=10).tokens


def test_a_full_context_drops_turns_and_then_is_told(model: native.NativeModel, python: Model) -> None:
    params = whole(model, PARAMS["sampled"])
    talk = [*ASKED, {"role": "assistant", "content": "the world " * 8}, {"role": "user", "content": "more"}]
    chat = python.chat(messages=talk, sampling=params)
    compared(model.reply(talk, sampling=params, max_tokens=500), read(chat.reply(max_tokens=500)))
    mine, theirs = model.more(sampling=params, max_tokens=500), read(chat.more())
    compared(mine, theirs)
    assert mine.figures["dropped_messages"] == 2
    assert theirs.finish_reason == "context"
    for more in (lambda: model.more(sampling=params), chat.more):
        with pytest.raises(ContextFullError, match=f"fills the context of {CONTEXT} tokens"):
            more()


@pytest.mark.parametrize("name", ["greedy", "mirostat"])
def test_saved_replies_go_on_in_both_engines(
    name: str, bundle: Path, model: native.NativeModel, python: Model, tmp_path: Path
) -> None:
    params = whole(model, PARAMS[name])
    long = model.reply(ASKED, sampling=params, max_tokens=30)
    model.reply(ASKED, sampling=params, max_tokens=10)
    model.save(tmp_path / "mine")
    chat = chat_of(python, params)
    chat.reply(max_tokens=10).read()
    chat.save(tmp_path / "theirs")
    for path in (tmp_path / "mine", tmp_path / "theirs"):
        other = python.chat(sampling=params, max_tokens=20)
        other.restore(path)
        assert read(other.more()).tokens == long.tokens[10:]
        with native.open(bundle, threads=1, context=CONTEXT) as opened:
            opened.restore(path)
            rest = opened.more(sampling=params, max_tokens=20)
            assert rest.tokens == long.tokens[10:]
            assert rest.figures["reused_tokens"] == rest.figures["prompt_tokens"] - 1


@pytest.mark.parametrize(
    "change",
    [
        {"said": [1, -1]},
        {"said": "x"},
        {"shown": 3},
        {"prompt": {"text": "a"}},
        {"prompt": {"text": "a", "ids": [1 << 40]}},
        {"bound": "much"},
    ],
    ids=json.dumps,
)
def test_a_damaged_reply_to_continue_is_refused(
    change: dict[str, Any], model: native.NativeModel, tmp_path: Path
) -> None:
    model.reply(ASKED, sampling=whole(model, PARAMS["greedy"]), max_tokens=10)
    model.save(tmp_path / "talk")
    with open_file(tmp_path / "talk") as stored:
        document, body = stored.document, stored.body.read(stored.body_bytes)
    document["unfinished"].update(change)
    write_file(tmp_path / "talk", document, lambda sink: sink.write(body))
    with pytest.raises(BadFileError, match="the reply to continue is wrong"):
        model.restore(tmp_path / "talk")
