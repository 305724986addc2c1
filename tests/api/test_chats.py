"""Chats as Python programs use them: given messages, bounds of one reply, and a model that is closed."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgedec
from edgedec.bundle.preset import Preset
from edgedec.sampling import DrawParams
from tests.api.opening import opened

ASKED = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": "world"},
]


def test_settings_of_a_run_are_keywords_of_open(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, tmp_path, context=64, memory="2GB") as model:
        assert model.context == 64
        assert model.config == edgedec.RunConfig(threads=1, context=64, draft="off", memory="2GB")


def test_a_config_and_its_fields_contradict_each_other(bundle: Path) -> None:
    with pytest.raises(edgedec.UsageError, match="both a config and context are given"):
        edgedec.open(bundle, edgedec.RunConfig(), context=64)


def test_a_chat_goes_on_with_given_messages(model: edgedec.Model) -> None:
    chat = model.chat(messages=ASKED, max_tokens=5)
    assert chat.system == "Be brief."
    assert chat.messages == [edgedec.Message(**message) for message in ASKED]
    text = chat.reply("hello").read()
    talked = model.chat(messages=[*chat.messages[:3], edgedec.Message("user", "hello")], max_tokens=5)
    assert talked.reply().read() == text
    assert talked.messages == chat.messages


def test_messages_without_a_system_message_get_the_one_beside_them(model: edgedec.Model) -> None:
    assert model.chat(messages=ASKED[1:], system="Be long.").system == "Be long."
    assert model.chat(messages=ASKED[1:]).system == model.preset.system == Preset().system


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([{"role": "robot", "content": "x"}], "unknown role 'robot'"),
        ([{"role": "user"}], "is no message"),
        ([{"role": "user", "content": None}], "is no message"),
        (["hello"], "'hello' is no message"),
        ([*ASKED, ASKED[0]], "stands after another message"),
    ],
)
def test_messages_that_are_none_are_refused(
    model: edgedec.Model, messages: list[dict[str, object]], words: str
) -> None:
    with pytest.raises(edgedec.UsageError, match=words):
        model.chat(messages=messages)


def test_two_system_messages_are_refused(model: edgedec.Model) -> None:
    with pytest.raises(edgedec.UsageError, match="two system messages"):
        model.chat(messages=ASKED, system="Be long.")


def test_a_reply_without_a_text_needs_a_message_of_the_user(model: edgedec.Model) -> None:
    for messages in ([], ASKED):
        with pytest.raises(edgedec.UsageError, match="no message to answer"):
            model.chat(messages=messages).reply()


def test_bounds_of_one_reply_hold_for_it_alone(model: edgedec.Model) -> None:
    chat = model.chat(max_tokens=9)
    short = chat.reply("hello", max_tokens=3, sampling=edgedec.SamplingParams(temperature=0.9, seed=4))
    short.read()
    assert len(short.tokens) == 3
    assert short.params == DrawParams(temperature=0.9, seed=4)
    plain = chat.reply("hello")
    plain.read()
    assert plain.params == model.sampling
    assert len(plain.tokens) <= 9


def test_a_reply_with_its_own_sampling_goes_on_with_it(model: edgedec.Model) -> None:
    warm = edgedec.SamplingParams(temperature=0.9, seed=4)
    long = model.chat().reply("hello", max_tokens=12, sampling=warm)
    long.read()
    chat = model.chat()
    first = chat.reply("hello", max_tokens=6, sampling=warm)
    first.read()
    rest = chat.more()
    rest.read()
    assert first.tokens + rest.tokens == long.tokens


def test_a_stop_string_of_one_reply(model: edgedec.Model) -> None:
    whole = model.chat(max_tokens=12).reply("hello").read()
    stop = whole[4:6]
    chat = model.chat(max_tokens=12)
    assert chat.reply("hello", stop=[stop]).read() == whole[: whole.index(stop)]
    assert chat.settings.stops == ()


def test_a_closed_model_answers_no_more(bundle: Path, tmp_path: Path) -> None:
    model = opened(bundle, tmp_path)
    chat = model.chat(max_tokens=20)
    chat.reply("hello", max_tokens=3).read()
    running = iter(chat.reply("hello"))
    next(running)
    model.close()
    assert len(list(running)) <= 1
    assert chat.last is not None
    assert chat.last.finish_reason == "interrupted"
    for act in (
        lambda: chat.reply("hello"),
        lambda: chat.more(),
        lambda: chat.complete("hello"),
        lambda: model.chat(),
        lambda: model.complete("hello"),
    ):
        with pytest.raises(edgedec.UsageError, match=f"{model.name} was closed"):
            act()
    model.close()


def test_a_reply_that_is_left_is_part_of_the_chat_before_the_next_one(model: edgedec.Model) -> None:
    chat = model.chat(max_tokens=20)
    left = chat.reply("hello")
    pieces = iter(left)
    shown = next(pieces)
    chat.reply("world").read()
    assert [message.content for message in chat.messages[:3]] == ["hello", shown, "world"]
    assert list(pieces) == []


def test_objects_say_what_they_are(model: edgedec.Model) -> None:
    assert repr(model) == f"<Model {model.name}: one conversation, 256 tokens of context>"
    chat = model.chat(max_tokens=4)
    assert repr(chat) == f"<Chat with {model.name}: 0 turns, 0 of 256 tokens>"
    reply = chat.reply("hello")
    assert repr(reply) == "<Reply '': 0 tokens, not finished>"
    text = reply.read()
    assert repr(reply) == f"<Reply {text!r}: 4 tokens, length>"
    assert repr(chat) == f"<Chat with {model.name}: 1 turn, {len(chat.prompts.seen.ids)} of 256 tokens>"
    assert repr(edgedec.SamplingParams(top_k=3)) == "SamplingParams(top_k=3)"


def test_dir_lists_what_a_person_may_want(model: edgedec.Model) -> None:
    assert {"chat", "complete", "close", "name"} <= set(dir(model))
    chat = model.chat()
    for thing in (model, chat, chat.reply("hello")):
        assert not {"runner", "single", "engine", "codec", "computing"} & set(dir(thing))
        for name in dir(thing):
            getattr(thing, name)


def test_a_closed_model_says_so(bundle: Path, tmp_path: Path) -> None:
    model = opened(bundle, tmp_path, conversations=2, context=64)
    assert repr(model) == f"<Model {model.name}: 2 conversations, 64 tokens of context>"
    model.close()
    assert repr(model).endswith(", closed>")


SWITCHED = (
    "{% for m in messages %}{{ m.content }} {% endfor %}"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
)


def test_thinking_is_turned_off_for_a_run_and_in_a_chat(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, tmp_path, template=SWITCHED, thinking=False) as model:
        chat = model.chat(max_tokens=2)
        assert chat.reply("hello").read() is not None
        assert chat.last is not None
        off = chat.last.prompt
        chat.reset()
        chat.think(True)
        chat.reply("hello").read()
        on = chat.last.prompt
    assert chat.tokenizer.decode(off).endswith("<think></think>")
    assert off[: len(on) - 1] == on[:-1]
    assert len(on) < len(off)


def test_a_template_without_a_switch_for_thinking_is_refused(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(edgedec.UsageError, match="cannot turn thinking off"):
        opened(bundle, tmp_path, template="{{ messages }}", thinking=False)
    with pytest.raises(edgedec.UsageError, match="has no chat template"):
        opened(bundle, tmp_path, template="", thinking=True)
