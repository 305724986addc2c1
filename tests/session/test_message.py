"""Messages in OpenAI's forms: calls of tools, results, parts of text, and anything else refused plainly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.core.errors import UnsupportedError, UsageError
from edgedec.session.message import Message, ToolCall, conversation_of, in_one_system, message_of
from edgedec.session.prompt import Prompts
from edgedec.text.template_inputs import TemplateInputs
from tests.fixtures.ready import chat_of
from tests.session.parrot import load_parrot

CALL: dict[str, Any] = {
    "id": "call1",
    "type": "function",
    "function": {"name": "add", "arguments": '{"a": 1, "b": [2, "x"]}'},
}
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "Add."},
    {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None, "annotations": []},
    {"role": "tool", "tool_call_id": "call1", "name": "add", "content": [{"type": "text", "text": "3"}]},
    {"role": "assistant", "content": "It is 3.", "reasoning_content": "One and two."},
]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


def test_a_conversation_with_tools_keeps_every_field() -> None:
    call = ToolCall("call1", "add", '{"a": 1, "b": [2, "x"]}')
    assert conversation_of(TALK, None) == [
        Message("user", "Add."),
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "3", name="add", tool_call_id="call1"),
        Message("assistant", "It is 3.", reasoning="One and two."),
    ]
    assert call.values() == {"a": 1, "b": [2, "x"]}


def test_openai_forms_come_back() -> None:
    messages = conversation_of(TALK, None)
    assert [message_of(message.as_json()) for message in messages] == messages
    assert messages[0].as_json() == TALK[0]
    assert messages[1].as_json()["tool_calls"] == [CALL]


def test_a_message_shows_the_fields_that_it_uses() -> None:
    assert repr(Message("user", "")) == "Message(role='user', content='')"
    assert repr(conversation_of(TALK, None)[2]) == (
        "Message(role='tool', content='3', name='add', tool_call_id='call1')"
    )


def test_a_template_gets_arguments_as_values() -> None:
    shown = message_of(TALK[1]).for_template()
    assert shown["tool_calls"][0]["function"] == {"name": "add", "arguments": {"a": 1, "b": [2, "x"]}}


def test_text_parts_are_joined_and_developers_are_the_system() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert message_of({"role": "developer", "content": parts}) == Message("system", "ab")


def test_a_call_without_arguments_has_an_empty_object() -> None:
    empty: tuple[object, ...] = ("", " ", None, {})
    for arguments in empty:
        call = {"id": "x", "function": {"name": "now", "arguments": arguments}}
        assert message_of({"role": "assistant", "tool_calls": [call]}).tool_calls[0].values() == {}


def with_call(**function: object) -> dict[str, object]:
    return {"role": "assistant", "tool_calls": [{"id": "x", "function": function}]}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "user", "content": "x", "cache": 1}, "no field 'cache'"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {}}]},
            "reads text alone.*image_url",
        ),
        ({"role": "user", "content": [7]}, "reads text alone.*7"),
        ({"role": "user", "content": 7}, "is no message"),
        ({"role": "user", "content": b"x"}, "is no message"),
        ({"role": "function", "content": "x"}, "unknown role 'function'"),
        ({"role": "user", "content": "x", "tool_calls": [CALL]}, "role user has no tool calls"),
        ({"role": "user", "content": "x", "tool_call_id": "call1"}, "role user answers no tool call"),
        ({"role": "tool", "content": "x", "tool_call_id": 7}, "tool_call_id is 7"),
        ({"role": "assistant", "tool_calls": "x"}, "'x' is no list of tool calls"),
        ({"role": "assistant", "tool_calls": ["x"]}, "'x' is no tool call"),
        (with_call(name=""), "is no tool call"),
        (with_call(name="f", arguments=7), "arguments is 7"),
    ],
)
def test_anything_else_is_refused_in_one_line(message: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        message_of(message)
    assert len(str(caught.value)) < 300


def test_a_message_object_is_checked_too() -> None:
    with pytest.raises(UsageError):
        message_of(Message("robot", "x"))


@pytest.mark.parametrize("arguments", ["[1]", "{", '{"a": NaN}', '{"a":' * 100_000, "null"])
def test_arguments_that_were_cut_are_a_text_for_templates_and_no_values(arguments: str) -> None:
    message = message_of(with_call(name="f", arguments=arguments))
    assert message.for_template()["tool_calls"][0]["function"]["arguments"] == arguments
    with pytest.raises(UsageError, match="'f' are no JSON object"):
        message.tool_calls[0].values()


def said(*turns: str) -> list[Message]:
    roles = {"s": "system", "u": "user", "a": "assistant"}
    return [Message(roles[turn[0]], turn) for turn in turns]


@pytest.mark.parametrize(
    ("turns", "kept", "moved"),
    [
        (said("u1"), said("u1"), said("u1")),
        (said("s1", "u1"), said("s1", "u1"), said("s1", "u1")),
        (said("u1", "s1"), said("u1", "s1"), said("s1", "u1")),
        (
            said("s1", "u1", "s2", "u2"),
            said("s1", "u1", "s2", "u2"),
            [Message("system", "s1\n\ns2"), *said("u1", "u2")],
        ),
        (
            said("s1", "s1", "u1", "s1"),
            [Message("system", "s1\n\ns1"), *said("u1", "s1")],
            [Message("system", "s1\n\ns1\n\ns1"), *said("u1")],
        ),
    ],
)
def test_several_system_messages_become_one_or_keep_their_place(
    turns: list[Message], kept: list[Message], moved: list[Message]
) -> None:
    assert in_one_system(turns, later=True) == kept
    assert in_one_system(turns, later=False) == moved


texts = st.text(max_size=20)


@settings(max_examples=200, deadline=None)
@given(content=texts, reasoning=texts, name=texts, arguments=st.dictionaries(texts, st.integers() | texts))
def test_every_message_survives_its_json(
    content: str, reasoning: str, name: str, arguments: dict[str, object]
) -> None:
    call = {"id": name, "function": {"name": name or "f", "arguments": arguments}}
    message = message_of(
        {"role": "assistant", "content": content, "reasoning": reasoning, "name": name, "tool_calls": [call]}
    )
    assert message_of(message.as_json()) == message


def test_a_saved_conversation_keeps_calls_and_results(tmp_path: Path) -> None:
    messages = conversation_of(TALK, None)
    chat = chat_of(load_parrot(tmp_path, "Yes."))
    chat.messages = messages
    chat.save(tmp_path / "talk")
    again = chat_of(load_parrot(tmp_path, "Yes."))
    again.restore(tmp_path / "talk")
    assert again.messages == messages


def test_a_result_is_answered_and_taken_back_with_its_turn(tmp_path: Path) -> None:
    chat = chat_of(load_parrot(tmp_path, "One.", "Two.", "Three."))
    chat.reply("Hi").read()
    before, seen = list(chat.messages), chat.prompts.seen
    chat.reply("Add").read()
    chat.messages.append(Message("tool", "3", tool_call_id="call1"))
    assert chat.reply().read() == "Three."
    assert chat.take_back() == "Add"
    assert (chat.messages, chat.prompts.seen) == (before, seen)


def test_tools_need_a_template_that_writes_them(tmp_path: Path) -> None:
    chat = chat_of(load_parrot(tmp_path, "One."))
    inputs = TemplateInputs((TOOL,))
    for template in (chat.codec.template, None):
        with pytest.raises(UnsupportedError, match="no tools"):
            Prompts(chat.tokenizer, template, None, inputs).build([Message("user", "Hi")])
