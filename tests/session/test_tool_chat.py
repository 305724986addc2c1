"""Chats with tools: calls out of replies, results into the conversation, and a call that must be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgedec.core.errors import UnsupportedError, UsageError
from edgedec.session.chat import Chat
from edgedec.session.message import Message, ToolCall
from edgedec.session.reply import Settings
from edgedec.session.reply_syntax import ReplySyntax
from edgedec.text.template import ChatTemplate
from tests.conftest import ROOT
from tests.fixtures.ready import chat_of
from tests.fixtures.tiny_vocab import BPE_SPECIALS
from tests.session import parrot
from tests.session.parrot import load_parrot

QWEN = (ROOT / "tests" / "text" / "templates" / "qwen2.5-coder.jinja").read_text(encoding="utf-8")
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
}
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
ADD = ToolCall("call00000", "add", '{"a": 1}')


def chat_with_tools(folder: Path, *replies: str | list[int], template: str = QWEN, **syntax: Any) -> Chat:
    chat = chat_of(load_parrot(folder, *replies, capacity=2000), Settings(max_tokens=200))
    codec = replace(chat.codec, template=ChatTemplate(template, bos="", eos=""))
    return Chat(chat.engine, codec, chat.settings, syntax=ReplySyntax(codec, (TOOL,), **syntax))


def test_a_call_and_its_result_are_in_the_conversation(tmp_path: Path) -> None:
    chat = chat_with_tools(tmp_path, CALL, "It is 2.")
    reply = chat.reply("Add.")
    assert reply.read() == CALL
    assert reply.tool_calls == (ADD,)
    chat.tool_result(ADD, "2")
    second = chat.reply()
    assert second.reused >= len(reply.prompt) + len(reply.tokens) - 1
    assert second.read() == "It is 2."
    assert chat.messages == [
        Message("user", "Add."),
        Message("assistant", "", tool_calls=(ADD,)),
        Message("tool", "2", name="add", tool_call_id="call00000"),
        Message("assistant", "It is 2."),
    ]


def test_thinking_content_and_calls_are_told_apart(tmp_path: Path) -> None:
    chat = chat_with_tools(tmp_path, f"<think>\nHm.\n</think>\n\nI add.\n{CALL}\n{CALL}")
    chat.reply("Add.").read()
    again = ToolCall("call00001", "add", '{"a": 1}')
    assert chat.messages[-1] == Message("assistant", "I add.", tool_calls=(ADD, again), reasoning="Hm.")


def test_ids_of_later_calls_are_others(tmp_path: Path) -> None:
    chat = chat_with_tools(tmp_path, CALL, CALL)
    chat.reply("Add.").read()
    chat.tool_result(ADD, "2")
    assert [call.id for call in _read(chat).tool_calls] == ["call00001"]


def _read(chat: Chat) -> Any:
    reply = chat.reply()
    reply.read()
    return reply


def test_a_result_needs_a_call_that_waits(tmp_path: Path) -> None:
    chat = chat_with_tools(tmp_path, CALL)
    with pytest.raises(UsageError, match="no call 'call00000' waits"):
        chat.tool_result(ADD, "2")
    chat.reply("Add.").read()
    with pytest.raises(UsageError, match="no call 'other' waits"):
        chat.tool_result(ToolCall("other", "add"), "2")
    chat.tool_result(ADD, "2")
    with pytest.raises(UsageError, match="no call 'call00000' waits"):
        chat.tool_result(ADD, "2")


def test_a_call_that_was_cut_is_content_and_goes_on(tmp_path: Path) -> None:
    chat = chat_with_tools(tmp_path, CALL)
    whole = chat.reply("Add.")
    whole.read()
    chat.take_back()
    cut = chat.reply("Add.", max_tokens=len(whole.tokens) // 2 + 4)
    cut.read()
    assert cut.finish_reason == "length"
    assert chat.messages[-1] == Message("assistant", cut.text)
    rest = chat.more()
    rest.read()
    assert cut.tokens + rest.tokens == whole.tokens
    assert chat.messages[-1] == Message("assistant", "", tool_calls=(ADD,))


MISTRAL = (
    "{{ tools | tojson if tools }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% if m.tool_calls %}[TOOL_CALLS][{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %}]"
    "{% endif %}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture
def tag(monkeypatch: pytest.MonkeyPatch) -> int:
    """A control token of the tiny tokenizer that is Mistral's tag."""
    monkeypatch.setattr(parrot, "BPE_SPECIALS", (*BPE_SPECIALS, "[TOOL_CALLS]"))
    return len(BPE_SPECIALS)


def test_a_tag_that_is_a_control_token_begins_a_call(tmp_path: Path, tag: int) -> None:
    text = '[{"name": "add", "arguments": {"a": 1}}]'
    ids = parrot.make_tokenizer(tmp_path).encode(text, add_bos=False)
    chat = chat_with_tools(tmp_path, [tag, *ids], "Done.", template=MISTRAL)
    reply = chat.reply("Add.")
    assert reply.read() == f"[TOOL_CALLS]{text}"
    assert reply.tool_calls == (ADD,)
    chat.tool_result(ADD, "2")
    again = chat.reply()
    assert again.prompt[: len(reply.prompt) + len(ids) + 1] == [*reply.prompt, tag, *ids]
    assert again.reused >= len(reply.prompt) + len(ids)


def test_without_tools_a_control_token_is_silent(tmp_path: Path, tag: int) -> None:
    ids = parrot.make_tokenizer(tmp_path).encode("Yes.", add_bos=False)
    chat = chat_with_tools(tmp_path, [tag, *ids], template=MISTRAL, choice="none")
    assert chat.reply("Add.").read() == "Yes."


def test_a_tool_choice_of_none_hides_the_tools(tmp_path: Path) -> None:
    chat = chat_with_tools(tmp_path, CALL, choice="none")
    reply = chat.reply("Add.")
    reply.read()
    assert reply.tool_calls == ()
    assert "add" not in chat.prompts.seen.text.replace(CALL, "")
    assert chat.messages[-1] == Message("assistant", CALL)


@pytest.mark.parametrize(("choice", "words"), [("subtract", "'subtract' is no tool"), ("", "'' is no tool")])
def test_a_choice_that_is_no_tool_is_refused(tmp_path: Path, choice: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        chat_with_tools(tmp_path, "x", choice=choice)


def test_a_required_call_needs_tools(tmp_path: Path) -> None:
    codec = chat_with_tools(tmp_path, "x").codec
    with pytest.raises(UsageError, match="there are no tools"):
        ReplySyntax(codec, (), "required")


def test_a_form_of_calls_that_is_not_known_is_refused_before_the_reply(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="not known"):
        chat_with_tools(tmp_path, "x", template="{{ tools | tojson }}")


def test_a_bound_reply_that_is_cut_is_no_fault_and_goes_on_from_its_file(tmp_path: Path) -> None:
    chat = chat_with_tools(tmp_path, f"I add. {CALL}", bound=True)
    reply = chat.reply("Add.", max_tokens=30)
    assert f"I add. {CALL}".startswith(reply.read())
    assert reply.finish_reason == "length"
    chat.save(tmp_path / "talk")
    chat.reset()
    chat.restore(tmp_path / "talk")
    more = chat.more(final=True)
    assert reply.text + more.read() == f"I add. {CALL}"
    assert more.tool_calls == (ADD,)


def test_a_bound_call_is_valid_whatever_the_model_wants_to_say(tmp_path: Path) -> None:
    chat = chat_with_tools(tmp_path, CALL.replace("1", '"one"'), bound=True)
    reply = chat.reply("Add.", max_tokens=60)
    text = reply.read()
    assert text.startswith('<tool_call>\n{"name": "add", "arguments": {"a": ')
    assert '"one"' not in text
