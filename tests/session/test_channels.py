"""Chats with a model that replies in channels: the final one is the reply, the analysis is its thinking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgedec.grammar import GrammarSpec
from edgedec.sampling import DrawParams
from edgedec.server.work.intake import Intake
from edgedec.server.work.request import GenerationRequest, QueueLimits
from edgedec.session.chat import Chat
from edgedec.session.message import Message, ToolCall
from edgedec.session.reply import Reply, Settings
from edgedec.session.reply_syntax import ReplySyntax
from edgedec.text.channels import MARKS
from edgedec.text.template import ChatTemplate
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.nightly import every
from tests.fixtures.ready import Ready, chat_of, ready_of
from tests.fixtures.tiny_vocab import BPE_SPECIALS, bpe_pieces
from tests.session.parrot import END, Parrot, codec_of, make_tokenizer

TEMPLATE = (
    "{% for t in tools or [] %}functions {{ t.function.name }}{% endfor %}"
    "{% for m in messages %}{% if m.thinking %}<|start|>assistant<|channel|>analysis<|message|>"
    "{{ m.thinking }}<|end|>{% endif %}<|start|>{{ m.role }}"
    "{% if m.tool_calls %} to=functions.{{ m.tool_calls[0].function.name }}<|channel|>commentary json"
    "<|message|>{{ m.tool_calls[0].function.arguments | tojson }}<|call|>"
    "{% elif m.role == 'assistant' %}<|channel|>final<|message|>{{ m.content }}<|end|>"
    "{% else %}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)
ANALYSIS, FINAL = "<|channel|>analysis<|message|>", "<|channel|>final<|message|>"
NEXT = "<|end|><|start|>assistant"
TWO = f"{ANALYSIS}Hm.{NEXT}{FINAL}Two."
CALL = f'{ANALYSIS}I add.{NEXT}<|channel|>commentary to=functions.add <|constrain|>json<|message|>{{"a": 1}}'
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
}
ADD = ToolCall("call00000", "add", '{"a": 1}')


class Spoken:
    """Says the n-th reply to the n-th turn of a user or tool, and remembers what it read."""

    def __init__(self, tokenizer: Tokenizer, replies: tuple[str, ...]) -> None:
        self.encode = lambda text: tokenizer.encode(text, add_bos=False, parse_special=True)
        self.replies = [self.encode(reply) for reply in replies]
        self.openings = [self.encode(f"<|start|>{role}") for role in ("user", "tool")]

    def __call__(self, context: list[int]) -> int:
        def places(part: list[int]) -> list[int]:
            return [at for at in range(len(context)) if context[at : at + len(part)] == part]

        asked = sorted(at for opening in self.openings for at in places(opening))
        opening = self.encode("<|start|>assistant")
        start = next((at for at in places(opening) if asked and at > asked[-1]), None)
        if start is None:
            return END
        so_far, reply = context[start + len(opening) :], self.replies[len(asked) - 1]
        return [*reply, END][len(so_far)] if so_far == reply[: len(so_far)] else END


def ready(folder: Path, *replies: str) -> Ready:
    tokenizer = make_tokenizer(folder, (*MARKS, "<|return|>", "<|call|>"))
    size = len(BPE_SPECIALS) + len(bpe_pieces()[0]) + len(MARKS) + 2
    codec = codec_of(tokenizer, ChatTemplate(TEMPLATE, bos="", eos=""))
    return ready_of(Parrot(Spoken(tokenizer, replies), size, 2000), codec)


def chat(folder: Path, *replies: str, tools: bool = False, **settings: Any) -> Chat:
    made = chat_of(ready(folder, *replies), Settings(**{"max_tokens": 400, **settings}))
    return Chat(
        made.engine, made.codec, made.settings, syntax=ReplySyntax(made.codec, (TOOL,) if tools else ())
    )


def test_the_final_channel_is_the_reply_and_the_analysis_is_thinking(tmp_path: Path) -> None:
    talk = chat(tmp_path, TWO, TWO.replace("Two", "Three"))
    reply = talk.reply("What is 1 + 1?")
    assert reply.read() == "<think>Hm.</think>\n\nTwo."
    assert reply.message == Message("assistant", "Two.", reasoning="Hm.")
    again = talk.reply("And 1 + 2?")
    assert again.read().endswith("Three.")
    assert talk.messages[1] == Message("assistant", "Two.", reasoning="Hm.")
    prompt = talk.tokenizer.decode(again.prompt)
    assert "Two." in prompt
    assert "Hm." not in prompt
    assert "think" not in prompt


def test_pieces_come_as_they_are_said(tmp_path: Path) -> None:
    pieces = list(chat(tmp_path, TWO).reply("What?"))
    assert len(pieces) > 5
    assert pieces[0] == "<think>"


def test_a_call_and_its_result(tmp_path: Path) -> None:
    talk = chat(tmp_path, CALL, TWO, tools=True)
    reply = talk.reply("Add.")
    reply.read()
    assert reply.tool_calls == (ADD,)
    assert talk.messages[-1] == Message("assistant", "", tool_calls=(ADD,), reasoning="I add.")
    talk.tool_result(ADD, "2")
    second = talk.reply()
    second.read()
    assert second.message.content == "Two."
    assert "I add." in talk.tokenizer.decode(second.prompt)  # what it thought before a call


def test_a_call_without_tools_is_content(tmp_path: Path) -> None:
    talk = chat(tmp_path, CALL)
    talk.reply("Add.").read()
    assert talk.messages[-1].content == 'to=functions.add<|channel|>commentary json<|message|>{"a": 1}'
    assert talk.messages[-1].reasoning == "I add."


@pytest.mark.parametrize("limit", every(3, range(1, 40)))
def test_a_reply_that_was_cut_goes_on(tmp_path: Path, limit: int) -> None:
    """Wherever it was: within a header, the analysis or the answer. Without text it is no turn."""
    talk = chat(tmp_path, TWO, max_tokens=limit)
    first = talk.reply("What?").read()
    if not first:
        assert talk.messages == []
        return
    talk.adjust(max_tokens=400)
    rest = talk.more().read() if talk.unfinished else ""
    assert first + rest == "<think>Hm.</think>\n\nTwo."
    assert talk.messages[-1] == Message("assistant", "Two.", reasoning="Hm.")


def test_stop_strings_are_of_the_text_that_is_shown(tmp_path: Path) -> None:
    talk = chat(tmp_path, TWO, stops=("Tw",))
    assert talk.reply("What?").read() == "<think>Hm.</think>\n\n"


@pytest.mark.parametrize("tools", [False, True])
def test_a_server_tells_them_apart_too(tmp_path: Path, tools: bool) -> None:
    one = ready(tmp_path, CALL if tools else TWO)
    engine = one.runner.engine
    intake = Intake(one.loaded, engine, DrawParams(), QueueLimits())
    request = GenerationRequest(messages=(Message("user", "Add."),), tools=(TOOL,) if tools else ())
    inputs = intake.inputs(request)
    reply = Reply(engine, one.loaded.codec.tokenizer, inputs.start, inputs.settings)
    reader = inputs.reader()
    parts = [*map(reader.push, reply), reader.flush()]
    assert "".join(part.reasoning for part in parts) == ("I add." if tools else "Hm.")
    assert "".join(part.content for part in parts) == ("" if tools else "Two.")
    assert reader.calls == int(tools)
    raw = intake.inputs(GenerationRequest(text="<|start|>user<|message|>Add.<|end|><|start|>assistant"))
    assert not raw.settings.channels


def test_a_reply_of_a_form_is_the_answer_at_once(tmp_path: Path) -> None:
    """The prompt ends in the header of the final channel, and the next turn goes on from its tokens."""
    talk = chat(tmp_path, f'{FINAL}{{"a": 1}}', TWO)
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    reply = talk.reply("What?", schema=schema)
    assert reply.read() == '{"a": 1}'
    assert reply.parsed == {"a": 1}
    ends = talk.tokenizer.encode(f"<|start|>assistant{FINAL}", add_bos=False, parse_special=True)
    assert reply.prompt[-len(ends) :] == ends
    second = talk.reply("And?")
    assert second.reused >= len(reply.prompt) + len(reply.text_tokens) - 1
    assert second.read().endswith("Two.")


def test_a_server_asks_for_a_form_within_the_answer(tmp_path: Path) -> None:
    one = ready(tmp_path, f"{FINAL}yes")
    intake = Intake(one.loaded, one.runner.engine, DrawParams(), QueueLimits())
    form = GrammarSpec.of(regex="yes|no")
    messages = (Message("user", "Add."),)
    inputs = intake.inputs(GenerationRequest(messages=messages, grammar=form))
    assert one.tokenizer.decode(inputs.prompt, one.tokenizer.control_ids().values()).endswith(FINAL)
    assert Reply(one.runner.engine, one.tokenizer, inputs.start, inputs.settings).read() == "yes"
    called = intake.inputs(GenerationRequest(messages=messages, tools=(TOOL,), tool_choice="required"))
    assert one.tokenizer.decode(called.prompt, one.tokenizer.control_ids().values()).endswith("assistant")


def test_a_raw_prompt_has_no_channels(tmp_path: Path) -> None:
    talk = chat(tmp_path, TWO)
    syntax = talk.syntax
    assert syntax.channels
    assert not ReplySyntax(codec_of(talk.tokenizer, None)).channels
