"""Tools in the native engine: prompts, tokens and calls as in Python, and one line for what cannot be."""

from __future__ import annotations

import ctypes
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgedec import native
from edgedec.api import Model
from edgedec.assemble.config import RunConfig
from edgedec.core.errors import EdgeDecError, UnsupportedError, UsageError
from edgedec.native.library import call, library
from edgedec.native.structs import CMessage, CRequest, CResult
from edgedec.sampling import DrawParams
from tests.fixtures.tiny_models import prepared_run
from tests.native.tool_talks import BOOK, TALKS, with_template
from tests.text.tool_calls.forms import FORMS, NOW, WEATHER
from tests.text.tool_calls.test_families import calls_of

TOOLS = [WEATHER, NOW]
JSON = json.dumps(TOOLS)
GREEDY = DrawParams()
QUESTION = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module", params=["hermes", "lfm", "gemma4", "qwen-coder"])
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def copy(bundle: Path, family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_template(bundle, tmp_path_factory.mktemp(family), FORMS[family].template.source)


@pytest.fixture(scope="module")
def model(copy: Path) -> Iterator[native.NativeModel]:
    with native.open(copy, threads=1, context=512, draft="off") as opened:
        yield opened


@pytest.fixture(scope="module")
def python(copy: Path) -> Iterator[Model]:
    with Model(prepared_run(copy, RunConfig(threads=1, context=512, draft="off"))) as opened:
        yield opened


def dictated(model: native.NativeModel, messages: Any, text: str, folder: Path) -> dict[str, Any]:
    """Make a model say ``text`` token by token; return the message that a saved conversation keeps of it."""
    for number, token in enumerate(model.encode(text)):
        asked = {"sampling": DrawParams(logit_bias=((token, 100.0),)), "max_tokens": 1, "tools": JSON}
        part = model.more(**asked) if number else model.reply(messages, **asked)
        assert part.tokens == [token]
    model.save(folder / "talk")
    message: dict[str, Any] = json.loads((folder / "talk").read_bytes().split(b"\n", 2)[1])["messages"][-1]
    calls = [(one["id"], one["function"]["name"]) for one in message.get("tool_calls", ())]
    assert [one[:2] for one in part.calls] == calls
    assert part.figures["tokens"] == 1
    return message


@pytest.mark.parametrize("params", [GREEDY, DrawParams(temperature=1.1, seed=5)])
@pytest.mark.parametrize("talk", ["a question", "a call", "two calls", "arguments that were cut"])
def test_replies_to_conversations_with_tools_have_the_tokens_of_python(
    model: native.NativeModel, python: Model, talk: str, params: DrawParams
) -> None:
    messages = TALKS[talk]
    ours = model.reply(messages, tools=JSON, sampling=params, max_tokens=12)
    chat = python.chat(tools=TOOLS, sampling=params, max_tokens=12, messages=messages[:-1])
    if messages[-1]["role"] == "user":
        theirs = chat.reply(messages[-1]["content"])
    else:
        chat.messages = [*chat.messages, native_message(messages[-1])]
        theirs = chat.reply()
    theirs.read()
    assert ours.tokens == theirs.tokens
    assert ours.figures["prompt_tokens"] == len(theirs.prompt)
    assert ours.calls == [(one.id, one.name, one.arguments) for one in theirs.tool_calls]
    assert ours.text == theirs.message.content


def native_message(given: dict[str, Any]) -> Any:
    from edgedec.session.message import message_of

    return message_of(given)


def test_calls_are_told_apart_and_their_results_answered(
    model: native.NativeModel, python: Model, family: str, tmp_path: Path
) -> None:
    said = FORMS[family].written(calls_of({"town": "Rome", "days": 2}))
    asked = dictated(model, QUESTION, f"I look.\n{said}", tmp_path)
    assert asked["content"] == "I look."
    [one] = asked["tool_calls"]
    assert (one["id"], one["function"]["name"]) == ("call00000", "weather")
    assert json.loads(one["function"]["arguments"]) == {"town": "Rome", "days": 2}
    result = {"role": "tool", "content": "Rain", "name": "weather", "tool_call_id": "call00000"}
    answer = model.reply([*QUESTION, asked, result], tools=JSON, sampling=GREEDY, max_tokens=8)
    other = python.chat(tools=TOOLS, sampling=GREEDY, max_tokens=8, messages=[*QUESTION, asked])
    other.messages = [*other.messages, native_message(result)]
    assert answer.tokens == _read(other.reply()).tokens
    assert answer.figures["reused_tokens"] > 0


def _read(reply: Any) -> Any:
    reply.read()
    return reply


def test_a_restored_reply_goes_on_with_its_calls(
    model: native.NativeModel, family: str, tmp_path: Path
) -> None:
    said = FORMS[family].written(calls_of({"town": "Rome"}))
    dictated(model, TALKS["a call"], said, tmp_path)
    whole = model.more(tools=JSON, sampling=GREEDY, max_tokens=4)
    model.restore(tmp_path / "talk")
    again = model.more(tools=JSON, sampling=GREEDY, max_tokens=4)
    assert (again.tokens, again.text, again.calls) == (whole.tokens, whole.text, whole.calls)
    assert [name for _, name, _ in again.calls][:1] == ["weather"]


def test_a_request_of_an_earlier_size_is_one_without_tools(model: native.NativeModel) -> None:
    def tokens(size: int) -> int:
        request, result = CRequest(), CResult(ctypes.sizeof(CResult))
        library().edgedec_request_init(ctypes.byref(request))
        request.size, request.max_tokens, request.tools = size, 2, b"[3]"
        message = (CMessage * 1)(CMessage(b"user", b"hello"))
        call("reply", model._handle, message, 1, ctypes.byref(request), ctypes.byref(result))
        return int(result.tokens)

    assert tokens(CRequest.tools.offset) == 2
    assert tokens(CRequest.schema.offset) == 2
    with pytest.raises(UsageError, match="the tool at place 0 is none"):
        tokens(ctypes.sizeof(CRequest))
    with pytest.raises(UsageError, match="the request has no size"):
        tokens(8)


STRICT = {"type": "function", "function": {"name": "f", "strict": True}}
USER = '"role": "user"'
DEEP = "[" * 300 + "]" * 300


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"tools": ""}, "the tools are no JSON list"),
        ({"tools": "{}"}, "the tools are no JSON list"),
        ({"tools": DEEP}, "the tools are no JSON list, or too large"),
        ({"tools": "[" + "0," * (1 << 18) + "0]"}, "the tools are no JSON list, or too large"),
        ({"tools": '["' + "x" * (5 << 20) + '"]'}, "the tools are no JSON list, or too large"),
        ({"tools": "[null]"}, "the tool at place 0 is none"),
        ({"tools": '[{"type": "search", "function": {"name": "f"}}]'}, "the tool at place 0 is none"),
        ({"tools": '[{"function": {"name": 3}}]'}, "the tool at place 0 is none"),
        ({"tools": '[{"function": {"name": "f", "parameters": []}}]'}, "the tool at place 0 is none"),
        ({"tools": json.dumps([NOW, NOW])}, "two tools have the name 'now'"),
        ({"tools": json.dumps([STRICT])}, "the tool 'f' is strict, and this engine binds no arguments"),
        ({"tools": '[{"function": {"name": "f", "x": 99999999999999999999}}]'}, "more than 64 bits"),
        ({"tools": '[{"function": {"name": "f", "x": 1e999}}]'}, "a number is out of range"),
        ({"tools": JSON, "schema": "{}"}, "a form and tools are given"),
        ({"messages": "[1"}, "the messages are no JSON"),
        ({"messages": "{}"}, "the messages are no list"),
        ({"messages": "[1]"}, "a message is no object"),
        ({"messages": '[{"content": "x"}]'}, "a message has no role"),
        ({"messages": '[{"role": "user"}]'}, "a message has no content"),
        ({"messages": '[{"role": "user", "content": 3}]'}, "content of a message is no text"),
        ({"messages": f'[{{{USER}, "content": [{{"type": "image"}}]}}]'}, "a part of a message is 'image'"),
        ({"messages": '[{"role": "user", "content": "x", "colour": 1}]'}, "a message has no field 'colour'"),
        ({"messages": '[{"role": "user", "content": "x", "tool_call_id": "y"}]'}, "answers no tool call"),
        ({"messages": f'[{{{USER}, "content": "x", "tool_calls": 1}}]'}, "tool_calls of a message are"),
        ({"messages": '[{"role": "assistant", "tool_calls": [{}]}]'}, "a tool call without a function"),
        ({"messages": '[{"role": "assistant", "content": "x"}]'}, "there is no message to answer"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line(model: native.NativeModel, asked: dict[str, str], says: str) -> None:
    messages = [] if "messages" in asked else QUESTION
    with pytest.raises((UsageError, UnsupportedError)) as caught:
        model._asked("reply", *turns(messages), **asked)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert model.reply(QUESTION, max_tokens=1).tokens


def turns(messages: list[dict[str, str]]) -> tuple[Any, int]:
    made = [CMessage(one["role"].encode(), one["content"].encode()) for one in messages]
    return (CMessage * len(made))(*made), len(made)


def test_text_has_no_tools_and_messages_come_once(model: native.NativeModel) -> None:
    with pytest.raises(UsageError, match="a text has no tools"):
        model.complete("hello", tools=JSON)
    with pytest.raises(UsageError, match="messages are given twice"):
        model._asked("reply", *turns(QUESTION), messages="[]")


def test_bytes_that_are_no_text_are_replaced_or_refused(model: native.NativeModel) -> None:
    rng = random.Random(2)
    good = json.dumps([*TOOLS, BOOK], ensure_ascii=False).encode()
    refused: list[str] = []
    for _ in range(60):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(1, 256)
        request, result = CRequest(), CResult(ctypes.sizeof(CResult))
        library().edgedec_request_init(ctypes.byref(request))
        request.max_tokens, request.tools = 1, bytes(data)
        try:
            call("reply", model._handle, *turns(QUESTION), ctypes.byref(request), ctypes.byref(result))
        except EdgeDecError as error:
            refused.append(error.message)
    assert 0 < len(refused) < 60
    assert not any("\n" in message for message in refused)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (None, "the chat template of this model knows no tools"),
        (FORMS["harmony"].template.source, "this engine reads no tool calls of the family harmony"),
        ("{% for t in tools or [] %}{{ t.function.name }}{% endfor %}", "tool calls is not known"),
        ("{% for t in tools or [] %}{{ t.function.name | center }}{% endfor %}", "needs the filter center"),
        ("{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{{ 1 % 0 }}", "knows no tools"),
    ],
)
def test_a_template_that_cannot_is_refused_in_one_line(
    bundle: Path, tmp_path: Path, source: str | None, says: str
) -> None:
    folder = with_template(bundle, tmp_path, source) if source else bundle
    opened = native.open(folder, threads=1, context=256, draft="off")
    with opened, pytest.raises(UnsupportedError, match=says):
        opened.reply(QUESTION, tools=JSON)


CALL_X = '{"name": "weather", "arguments": {"town": "x"}}'


@pytest.mark.parametrize("family", ["hermes"], indirect=True)
@pytest.mark.parametrize(
    ("said", "calls"),
    [
        ('{"name": "weather", "arguments": {"town": "if (x) { y }"}}', ["if (x) { y }"]),
        ('{"name": "weather", "arguments": {"town": "a </tool_call> b"}}', ["a </tool_call> b"]),
        (f"{CALL_X} {CALL_X}", ["x", "x"]),
        ('{"name": "weather", "arguments": {"town": "\\u00e9\\""}}', ['é"']),
    ],
)  # fmt: skip
def test_marks_within_arguments_end_no_call(
    model: native.NativeModel, said: str, calls: list[str], tmp_path: Path
) -> None:
    """Bugs that other runtimes had: a brace or the closing tag within a text ended the call."""
    message = dictated(model, QUESTION, f"<tool_call>{said}</tool_call>", tmp_path)
    assert message["content"] == ""
    found = [json.loads(one["function"]["arguments"])["town"] for one in message["tool_calls"]]
    assert found == calls
