"""Replies that think without end: their thought is closed, counted, continued, and kept to forms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgedec.grammar.spec import GrammarSpec
from edgedec.session.chat import Chat
from edgedec.session.reply import Settings
from edgedec.session.reply_syntax import ReplySyntax
from edgedec.text.template import ChatTemplate
from edgedec.text.thought import ThoughtRule
from tests.fixtures.ready import chat_of
from tests.fixtures.tiny_vocab import CHATML
from tests.session.parrot import END, load_parrot, make_tokenizer
from tests.session.test_tool_chat import CALL, QWEN, TOOL

CLOSING = "\n\nI have thought enough, and answer now.\n</think>\n\n"
BEGUN = CHATML.replace("assistant\\n' }}", "assistant\\n<think>\\n' }}")


def thinker(
    folder: Path, limit: int | None, *, template: str = CHATML, answer: str = "It is 4.", **syntax: Any
) -> Chat:  # fmt: skip
    """A chat with a model that thinks "ab ab ab" until somebody closes its thought, and answers then."""
    tokenizer = make_tokenizer(folder)
    begun = template == BEGUN
    end, said, opening, marks = (
        tokenizer.encode(text, add_bos=False) for text in ("</think>\n\n", answer, "<think>", "assistant\n")
    )
    again = tokenizer.encode("ab ", add_bos=False)

    def speak(context: list[int]) -> int:
        at = max(at for at in range(len(context)) if context[at : at + len(marks)] == marks) + len(marks)
        reply = context[at:]
        closed = next((at for at in range(len(reply)) if reply[at : at + len(end)] == end), None)
        if closed is not None:
            rest = reply[closed + len(end) :]
            return [*said, END][len(rest)] if len(rest) <= len(said) else END
        if not begun and len(reply) < len(opening):
            return opening[len(reply)]
        return again[len(reply) % len(again)]

    ready = load_parrot(folder, speak=speak, capacity=2000)
    chat = chat_of(ready, Settings(max_tokens=200))
    codec = replace(chat.codec, template=ChatTemplate(template, bos="", eos=""))
    settings = replace(chat.settings, thought=ThoughtRule.of("", limit))
    return Chat(chat.engine, codec, settings, syntax=ReplySyntax(codec, **syntax))


@pytest.mark.parametrize("template", [CHATML, BEGUN])
@pytest.mark.parametrize("limit", [0, 1, 7])
def test_a_thought_is_closed_and_the_answer_follows(tmp_path: Path, limit: int, template: str) -> None:
    chat = thinker(tmp_path, limit, template=template)
    reply = chat.reply("2+2?")
    text = reply.read()
    assert text.endswith(f"{CLOSING}It is 4.")
    assert reply.finish_reason == "stop"
    assert (reply.stats.thought_tokens, reply.stats.thought_closed) == (limit, True)
    assert reply.stats.as_json()["thought_tokens"] == limit
    assert reply.message.content == "It is 4."
    assert f"{limit} of thought (closed)" in reply.stats.summary()
    assert chat.reply("And again?").read().endswith(f"{CLOSING}It is 4.")


def test_without_a_limit_thoughts_are_counted_and_not_closed(tmp_path: Path) -> None:
    reply = thinker(tmp_path, None).reply("2+2?")
    reply.read()
    assert reply.finish_reason == "length"
    assert reply.stats.thought_tokens > 100
    assert not reply.stats.thought_closed


@pytest.mark.parametrize("cut", [3, 9, 12, 25, 40])
def test_a_reply_that_was_cut_goes_on_as_if_it_had_not_been(tmp_path: Path, cut: int) -> None:
    whole = thinker(tmp_path, 10).reply("2+2?").read()
    chat = thinker(tmp_path, 10)
    text = chat.reply("2+2?", max_tokens=cut).read()
    while chat.unfinished:
        text += chat.more().read()
    assert text == whole
    assert chat.last is not None
    assert (chat.last.stats.thought_tokens, chat.last.stats.thought_closed) == (10, True)


def test_a_call_behind_a_closed_thought_keeps_its_schema(tmp_path: Path) -> None:
    bad = CALL.replace("1", '"one"')
    for answer in (CALL, bad):
        chat = thinker(tmp_path, 5, template=QWEN, answer=answer, tools=(TOOL,), bound=True)
        reply = chat.reply("Add.", max_tokens=120)
        text = reply.read()
        assert CLOSING in text
        assert '"one"' not in text
        assert (text.endswith(CALL), len(reply.tool_calls) == 1) == (answer == CALL, True)


def test_a_reply_of_a_form_has_no_thought_to_close(tmp_path: Path) -> None:
    chat = thinker(tmp_path, 0, template=BEGUN)
    reply = chat.reply("2+2?", grammar=GrammarSpec.regex("[0-9]"))
    assert reply.read() in list("0123456789")
    assert reply.stats.thought_tokens == 0
